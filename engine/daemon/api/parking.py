"""Watches the connections whose answers wait for something, in one thread for all of them, so that none has its own.

An answer that waits is a generator, see `Request.park`. It goes on once the descriptor that it has yielded is readable,
or is given up when the client hangs up. The thread that meets such an event deals with that one event and ends; if
connections are left to watch, another thread has taken its place before. So nothing that holds up one answer, such as
the lock of its container, holds up those that wait for something else. One lock guards what is watched; a generator
runs without it.
"""

import functools
import logging
import select
from collections.abc import Callable

from engine.daemon import locks
from engine.daemon.api.connection import Connection, Next
from engine.daemon.runtime import worker

log = logging.getLogger(__name__)

_FOR_A_REQUEST = -1  # stands for a descriptor: the answer is sent, and the client's next request is waited for

Way = Callable[[Connection], None]


class Parking:
    """The connections that wait.

    go_on: serves a connection from where it stands, in the caller's thread; drop: forgets one that has ended
    """

    def __init__(self, go_on: Way, drop: Way) -> None:
        self._go_on, self._drop = go_on, drop
        self._lock = locks.Lock("parked connections")
        self._poll = select.epoll()
        self._parked: dict[int, tuple[Connection, int]] = {}  # by the connection's descriptor; what it waits for
        self._waiting: dict[int, set[int]] = {}  # the same by what they wait for, without those that wait for a request
        self._worker = worker.Worker("parked", self._watch)

    def park(self, connection: Connection) -> None:
        """Watch a connection whose answer waits; any thread."""
        self._keep(connection, connection.sleeps_on)

    def _keep(self, connection: Connection, awaited: int) -> None:
        try:
            with self._lock:
                self._add(connection, awaited)
        except OSError:  # ENOSPC, ENOMEM of epoll_ctl(2)
            log.exception("a connection cannot be watched")
            connection.give_up()
            self._drop(connection)
            return
        self._worker.wake()

    def _add(self, connection: Connection, awaited: int) -> None:
        own = connection.fileno()
        self._poll.register(own, connection.hang_up | (select.EPOLLIN if awaited == _FOR_A_REQUEST else 0))
        if awaited != _FOR_A_REQUEST:
            if awaited not in self._waiting:
                try:
                    self._poll.register(awaited, select.EPOLLIN)
                except OSError:
                    self._poll.unregister(own)
                    raise
            self._waiting.setdefault(awaited, set()).add(own)
        self._parked[own] = connection, awaited

    def _take(self, own: int) -> Connection:
        """Watch a connection no more; the caller holds the lock."""
        connection, awaited = self._parked.pop(own)
        self._poll.unregister(own)
        if awaited != _FOR_A_REQUEST:
            self._waiting[awaited].discard(own)
            if not self._waiting[awaited]:
                del self._waiting[awaited]
                self._poll.unregister(awaited)
        return connection

    def _watch(self) -> None:
        """Deal with one event, once another thread watches what is left."""
        rung: list[Connection] = []
        told: tuple[Connection, int] | None = None
        for descriptor, _ in self._poll.poll(maxevents=1):
            with self._lock:
                rung = [self._take(own) for own in list(self._waiting.get(descriptor, ()))]
                if descriptor in self._parked:
                    connection, awaited = self._parked[descriptor]
                    # The event may be an older one, of a descriptor that has been closed and given again since.
                    if awaited == _FOR_A_REQUEST or connection.gone():
                        told = self._take(descriptor), awaited
        with self._lock:
            self._worker.leave()
            are_left = bool(self._parked)
        if are_left:
            self._worker.wake()
        for each in rung:
            self._resume(each)
        if told is not None and told[1] == _FOR_A_REQUEST:
            self._go_on(told[0])
        elif told is not None:
            told[0].give_up()
            self._drop(told[0])

    def _resume(self, connection: Connection) -> None:
        """Go on with an answer: what it waited for is there."""
        following = connection.resume() if connection.takes() else Next.SERVE
        if following is Next.SLEEP:
            self._keep(connection, connection.sleeps_on)
        elif following is Next.REST:
            self._keep(connection, _FOR_A_REQUEST)
        elif following is Next.END:
            self._drop(connection)
        else:  # it may have to wait for the client, and others have been rung for too
            worker.begin("parked", functools.partial(self._go_on, connection))

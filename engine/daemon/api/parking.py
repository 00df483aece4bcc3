"""Watches the connections whose answers wait for something, in one thread for all of them, so that none has its own.

An answer that waits is a generator, see `Request.park`. The thread here goes on with it once the descriptor that it has
yielded is readable, or when the client hangs up. It does only what cannot hold it up: what reads from a client, or may
have to wait until a client reads, is done in a thread of that connection. The thread exists while there is a connection
to watch. One lock guards what is watched; a generator runs without it.
"""

import logging
import select
import threading
from collections.abc import Callable

from engine.daemon import locks
from engine.daemon.api.connection import Connection
from engine.daemon.runtime import worker

log = logging.getLogger(__name__)

_FOR_A_REQUEST = -1  # stands for a descriptor: the answer is sent, and the client's next request is waited for

Way = Callable[[Connection], None]


class Parking:
    """The connections that wait.

    go_on: serves a connection from where it stands, in the caller's thread; drop: forgets one whose client has gone
    """

    def __init__(self, go_on: Way, drop: Way) -> None:
        self._go_on, self._drop = go_on, drop
        self._lock = locks.Lock("parked connections")
        self._poll = select.epoll()
        self._parked: dict[int, tuple[Connection, int]] = {}  # by the connection's descriptor; what it waits for
        self._waiting: dict[int, set[int]] = {}  # the same by what they wait for, without those that wait for a request
        self._watched = False

    def park(self, connection: Connection) -> None:
        """Watch a connection from now on; any thread."""
        with self._lock:
            self._add(connection, connection.sleeps_on)
            if self._watched:
                return
            self._watched = True
        worker.begin("parked", self._watch)

    def _add(self, connection: Connection, awaited: int) -> None:
        own = connection.fileno()
        self._parked[own] = connection, awaited
        self._poll.register(own, connection.hang_up | (select.EPOLLIN if awaited == _FOR_A_REQUEST else 0))
        if awaited != _FOR_A_REQUEST:
            if awaited not in self._waiting:
                self._poll.register(awaited, select.EPOLLIN)
            self._waiting.setdefault(awaited, set()).add(own)

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
        while True:
            for descriptor, _ in self._poll.poll():
                try:
                    self._hear(descriptor)
                except Exception:  # a failure with one connection must not end the watch over all
                    log.exception("a connection that waited is lost")
            with self._lock:
                if not self._parked:
                    self._watched = False
                    return

    def _hear(self, descriptor: int) -> None:
        with self._lock:
            rung = [self._take(own) for own in list(self._waiting.get(descriptor, ()))]
            told = None
            if descriptor in self._parked:
                connection, awaited = self._parked[descriptor]
                # The event may be an older one, of a descriptor that has been closed and given again since.
                if awaited == _FOR_A_REQUEST or connection.gone():
                    told = self._take(descriptor), awaited
        for each in rung:
            self._resume(each)
        if told is not None and told[1] == _FOR_A_REQUEST:
            self._hand_over(told[0])
        elif told is not None:
            told[0].give_up()
            self._drop(told[0])

    def _resume(self, connection: Connection) -> None:
        """Go on with an answer, what it waited for is there."""
        if not connection.takes():
            self._hand_over(connection)
            return
        goes_on = connection.resume()
        if connection.parked:
            awaited = connection.sleeps_on
        elif goes_on and connection.is_between_requests:
            awaited = _FOR_A_REQUEST
        else:
            self._hand_over(connection)
            return
        with self._lock:
            self._add(connection, awaited)

    def _hand_over(self, connection: Connection) -> None:
        try:
            threading.Thread(target=self._go_on, args=(connection,), daemon=True).start()
        except (RuntimeError, MemoryError):
            log.exception("the rest of a connection cannot be served")
            self._drop(connection)

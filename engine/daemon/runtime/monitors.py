"""The daemon's links to the monitors of containers and execs: starting, adopting, watching and messaging them.

A link is the daemon's socket to one monitor. Each container and exec has one, by its id, from when it runs until its
end is known. One thread (`watch`) waits on all links with epoll, and handles each end itself: the common end costs no
change of threads. An end may take long (a process that does not die, a resolver that does not answer), so a thread that
begins one first starts a helper if no other thread watches. A helper watches likewise, and leaves after a while without
events. So ends are handled side by side, but those of one container in order: a link is polled again only when its last
message is handled (EPOLLONESHOT). The API's threads start containers and execs, and send messages. Each wait for a
monitor has a time limit: the monitor may be stopped, or be held up by a disk.
"""

from __future__ import annotations

import logging
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable

from engine.daemon import busy, locks
from engine.daemon.runtime import worker
from engine.daemon.runtime.spawner import Spawner
from engine.errors import Conflict, Invalid, SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.wire.channel import Channel

if TYPE_CHECKING:  # loaded with the first container
    from engine.daemon.runtime import handshake
    from engine.wire import endpoint, schema, waits
    from engine.wire.schema import Attach, Detached, Exec, Exited, Resize, Start, Started
    from engine.wire.waits import Wait
else:
    handshake = late("engine.daemon.runtime.handshake")
    endpoint = late("engine.wire.endpoint")
    schema = late("engine.wire.schema")
    waits = late("engine.wire.waits")

log = logging.getLogger(__name__)

_GREETING_SECONDS = 3.0
_WAITED_SECONDS = 0.01  # for a greeting that `call` has waited for already
_SEND_SECONDS = 10
"""How long a monitor may read nothing of what it is sent; a few hundred messages fit before a send blocks."""
_SEND_LIMIT = struct.pack("ll", _SEND_SECONDS, 0)  # struct timeval

_MOST_HELPERS = 15
_IDLE_SECONDS = 5.0  # that a helper waits before it leaves; else a busy daemon would start one for each end
_HEARD = select.EPOLLIN | select.EPOLLONESHOT
_HUNG_UP = select.EPOLLONESHOT  # the kernel tells a hang-up unasked; one thread of those that watch is enough for it

Heard = Callable[[str, "Exited | Detached | None"], None]
"""A callback with the id of a container or exec and its monitor's message; None when the monitor has died."""


class Monitors:
    """All links of a daemon.

    ended: called in a watching thread with (container id, Exited, or None when the monitor itself has died)
    detached: called in a watching thread with the id of a container whose client has sent its detach keys
    """

    def __init__(
        self,
        spawner: Spawner,
        ended: Callable[[str, Exited | None], None],
        detached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._spawner = spawner
        self._ended = ended
        self._detached = detached
        self._links: dict[str, Channel] = {}
        self._called: dict[str, Channel | OSError] = {}
        self._greetings: dict[str, Started] = {}  # of the monitors of containers, which say what they can do
        self._parting: dict[str, list[Channel]] = {}  # to monitors that reported the end and stay for waiting clients
        self._names: dict[int, tuple[str, Heard]] = {}
        self._ending: dict[str, Channel] = {}  # by name, the links that have told an end which a thread is handling
        self._ends: dict[int, Callable[[], None]] = {}
        self._lock = locks.Lock("links")
        self._waiting = 0  # threads that watch and are not handling an end
        self._helpers = 0
        self._poll = select.epoll()
        self._poll.register(worker.bell(), select.EPOLLIN)

    def start(
        self,
        container_id: str,
        start: Start | bytes,
        clients: list[socket.socket],
        meanwhile: Callable[[], None],
        connect: Callable[[int, int], None] = lambda _pid, _pid_start: None,
        *,
        ordinary: bool = False,
        opened: tuple[int, ...] = (),
    ) -> Started:
        """Have the spawner make a container, as `handshake.start` does. The link is not watched yet (see `keep`)."""
        ours, started = handshake.start(
            self._spawner, container_id, start, clients, meanwhile, connect, ordinary=ordinary, opened=opened
        )
        self._have(container_id, ours, started)
        return started

    def _have(self, name: str, link: Channel, greeting: Started | None = None) -> None:
        link.socket.settimeout(None)
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
        with self._lock:
            self._links[name] = link
            if greeting is not None:
                self._greetings[name] = greeting

    def enter(
        self,
        exec_id: str,
        request: Exec | bytes,
        descriptors: list[int],
        home: Callable[[Channel], None] = lambda _: None,
        *,
        ordinary: bool = True,
    ) -> Started:
        """Have the spawner make an exec in a container, as `handshake.enter` does. The link is not watched yet."""
        ours, started = handshake.enter(self._spawner, exec_id, request, descriptors, home, ordinary=ordinary)
        self._have(exec_id, ours)
        return started

    def call(self, those: Iterable[tuple[str, str, str]]) -> None:
        """Connect to many monitors before `adopt` and `adopt_exec`, and wait once for the greetings of all of them.

        those: (id, exec directory, name of the socket in it) of containers or execs.

        All are waited for side by side, so many silent monitors delay the daemon's start no longer than one does.
        """
        waiting, poll = set(), select.poll()
        for name, exec_dir, socket_name in those:
            try:
                link = Channel(endpoint.connect(exec_dir, _GREETING_SECONDS, socket_name))
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
                self._called[name] = error
                continue
            self._called[name] = link
            waiting.add(link.fileno())
            poll.register(link.fileno(), select.POLLIN)
        latest = time.monotonic() + _GREETING_SECONDS
        while waiting and (left := latest - time.monotonic()) > 0:
            for descriptor, _ in poll.poll(left * 1000):
                poll.unregister(descriptor)
                waiting.discard(descriptor)

    def adopt(self, container_id: str, exec_dir: str) -> Started | Exited | None:
        """Adopt a container after a restart of the daemon; whether it runs or has ended, None if nothing is left of it.

        Raises SilentMonitor when its monitor exists and does not answer (it is stopped, or waits for a disk); no other
        container is to wait for it. Its link can be kept all the same if the error's `linked` is true.
        """
        if container_id not in self._called:
            self.call([(container_id, exec_dir, endpoint.NAME)])
        link = self._called.pop(container_id)
        if isinstance(link, BlockingIOError):
            raise handshake.SilentMonitor(linked=False) from link
        if isinstance(link, OSError):
            return handshake.left_behind(exec_dir)
        try:
            greeting = handshake.greeting(link, container_id, _WAITED_SECONDS)
        except handshake.TooSlow as error:
            self._have(container_id, link)
            raise handshake.SilentMonitor(linked=True) from error
        except SystemFailure:
            link.close()
            return handshake.left_behind(exec_dir)
        if isinstance(greeting, schema.Exited):
            with self._lock:
                self._part(container_id, link)
        else:
            self._have(container_id, link, greeting)
        return greeting

    def adopt_exec(self, exec_id: str) -> Started | None:
        """Adopt an exec after a restart of the daemon and a `call`; None when it runs no more.

        Raises SilentMonitor when its monitor does not answer (see `adopt`).
        """
        link = self._called.pop(exec_id)
        if isinstance(link, BlockingIOError):
            raise handshake.SilentMonitor(linked=False) from link
        if isinstance(link, OSError):
            return None
        try:
            greeting = handshake.expect(link, schema.Started, f"exec {exec_id}", _WAITED_SECONDS)
        except handshake.TooSlow as error:
            self._have(exec_id, link)
            raise handshake.SilentMonitor(linked=True) from error
        except SystemFailure:
            link.close()  # it has just ended
            return None
        self._have(exec_id, link)
        return greeting

    def drop(self, name: str) -> None:
        """Close the link of a container or exec whose start could not be recorded; it is not watched any more."""
        with self._lock:
            link = self._links.pop(name, None)
            self._greetings.pop(name, None)
            if link is None:
                return
            if self._names.pop(link.fileno(), None) is not None:
                self._poll.unregister(link.fileno())
            link.close()

    def keep(self, name: str, heard: Heard | None = None) -> None:
        """Watch the link of a container or exec that is recorded as running: from now on its end is handled.

        heard: for an exec, called with `Exited`, `Detached` or None (the monitor has died); a container needs none.
            It may be called in a thread that calls `look`, and before `keep` returns; it must not wait.
        """
        with self._lock:
            link = self._links[name]
            self._poll.register(link.fileno(), _HEARD)
            self._names[link.fileno()] = (name, heard or self._container_heard)

    def _container_heard(self, container_id: str, message: Exited | Detached | None) -> None:
        if isinstance(message, schema.Detached):
            self._detached(container_id)
        else:
            self._have_help()
            self._ended(container_id, message)

    def _have_help(self) -> None:
        """Start a helper if no other thread watches, since this thread may be busy with an end for long."""
        with self._lock:
            if self._waiting or self._helpers >= _MOST_HELPERS:
                return
            self._helpers += 1
        worker.begin("links", self._help)

    def look(self, name: str) -> bool:
        """Handle what a monitor has sent already; False when another thread is handling the end that it has told."""
        while True:
            with self._lock:
                link = self._links.get(name)
                if link is None:
                    return name not in self._ending
                descriptor = link.fileno()
                if descriptor not in self._names or not _readable(descriptor):
                    return True
            self._hear(descriptor)

    def ends(self, name: str) -> bool:
        """Whether a monitor has told an end, or has died, which a watching thread handles now or next.

        Handles no end itself, since an end may take long; but what a monitor has said before it.
        """
        while True:
            with self._lock:
                link = self._links.get(name)
                if link is None:
                    return name in self._ending
                descriptor = link.fileno()
                if not _readable(descriptor):
                    return False
                if link.tells(schema.Exited):
                    return True
                if descriptor not in self._names:
                    return False
            self._hear(descriptor)

    def ending(self) -> list[str]:
        """The names for which `ends` is true. One system call looks at all links, so a hundred cost little."""
        with self._lock:
            found = list(self._ending)
            links = {link.fileno(): name for name, link in self._links.items()}
        poll = select.poll()
        for descriptor in links:
            poll.register(descriptor, select.POLLIN)
        told = (links[descriptor] for descriptor, _ in poll.poll(0))
        return found + [name for name in told if self.ends(name)]

    def send(self, container_id: str, message: Attach | Resize, descriptors: list[int]) -> None:
        """Send a message to a container's monitor. Raises Conflict when the container is not running, SystemFailure
        when its monitor reads nothing for `_SEND_SECONDS`.
        """
        with self._lock:
            link = self._links.get(container_id)
        try:
            if link is None:
                raise BrokenPipeError
            link.send(message, descriptors)
        except BlockingIOError as error:  # SO_SNDTIMEO, see socket(7)
            raise SystemFailure(f"container {container_id}: its monitor does not answer") from error
        except OSError as error:
            raise Conflict(f"container {container_id} is not running") from error

    def entrust(self, container_id: str, wait: Wait, descriptor: int) -> bool:
        """Have the monitor keep a waiting client too, to answer it if the daemon dies; False if it cannot.

        Never blocks: raises BlockingIOError when the monitor has too much unread, and the caller may try again.
        """
        with self._lock:
            if not self._keeps(container_id):
                return False
            try:
                self._links[container_id].send_word(waits.pack(wait), [descriptor])
            except BlockingIOError:
                raise
            except OSError as error:  # it has just ended, or too many descriptors are in flight
                log.debug("container %s: its monitor cannot keep a waiting client: %s", container_id, error)
                return False
        return True

    def answered(self, container_id: str, number: int) -> None:
        """Tell the container's monitors that this daemon has answered the entrusted client of that number."""
        self._tell_keepers(container_id, waits.pack_answered(number), running=True)

    def settled(self, container_id: str) -> None:
        """The end is recorded: have monitors answer the clients that wait for it since before this daemon began."""
        self._tell_keepers(container_id, waits.SETTLED)

    def removed(self, container_id: str) -> None:
        """The removal is recorded: have monitors answer the clients that wait for it since before this daemon began."""
        self._tell_keepers(container_id, waits.REMOVED)

    def _tell_keepers(self, container_id: str, word: bytes, running: bool = False) -> None:
        with self._lock:
            links = list(self._parting.get(container_id, ()))
            if running and self._keeps(container_id):
                links.append(self._links[container_id])
            for link in links:
                try:
                    link.send_word(word)
                except OSError as error:  # the monitor is gone; or it is stopped, and must not be waited for
                    log.debug(
                        "container %s: a monitor that still serves waiting clients could not be told: %s",
                        container_id,
                        error,
                    )

    def _keeps(self, container_id: str) -> bool:
        """Whether the container's monitor can keep waiting clients; the caller holds the lock."""
        greeting = self._greetings.get(container_id)
        return greeting is not None and greeting.keeps_waiters

    def _part(self, container_id: str, link: Channel) -> None:
        """Keep the link to a monitor that has reported the end, until it exits itself; the caller holds the lock."""
        self._parting.setdefault(container_id, []).append(link)
        self._ends[link.fileno()] = lambda: self._close_parted(container_id, link)
        self._poll.register(link.fileno(), _HUNG_UP)

    def _close_parted(self, container_id: str, link: Channel) -> None:
        links = self._parting[container_id]
        links.remove(link)
        if not links:
            del self._parting[container_id]
        link.close()

    def wakes(self, container_id: str) -> bool:
        """Whether the container's monitor wakes an engine that sleeps, see `engine.wire.wakeup`."""
        with self._lock:
            greeting = self._greetings.get(container_id)
        return greeting is not None and greeting.wakes

    def let_go(self) -> bool:
        """Hear nothing of any monitor from now on, because the daemon ends; True if one has said something unheard.

        A monitor whose container ends after this knows that there is no daemon.
        """
        with self._lock:
            for descriptor in self._names:
                self._poll.unregister(descriptor)
            self._names.clear()
            unheard = [link.shut() for link in self._links.values()]
            return any(unheard)

    @property
    def at_work(self) -> bool:
        """Whether a thread that watches is handling what it has heard."""
        with self._lock:
            return self._waiting <= self._helpers

    def on_end(self, descriptor: int, ended: Callable[[], None]) -> None:
        """Have a watching thread call `ended` once, when the other end of a socket is closed; it reads nothing."""
        with self._lock:
            self._ends[descriptor] = ended
            self._poll.register(descriptor, _HUNG_UP)

    def off_end(self, descriptor: int) -> None:
        """Undo `on_end` for this descriptor; must be called before the socket is closed."""
        with self._lock:
            if self._ends.pop(descriptor, None) is not None:
                self._poll.unregister(descriptor)

    def shown(self) -> list[tuple[str, int, bool]]:
        """(id, descriptor, whether it is watched) of each link. Takes no lock: in `dump`, any thread may hold it."""
        return [(name, link.fileno(), link.fileno() in self._names) for name, link in list(self._links.items())]

    def watch(self) -> None:
        """Handle ends, and start the threads that are owed (see `worker`), for ever; runs in a thread of its own."""
        while True:
            self._watch(None)

    def _help(self) -> None:
        """Watch beside other threads, until nothing came for `_IDLE_SECONDS` and another thread watches."""
        while True:
            if self._watch(_IDLE_SECONDS):
                continue
            with self._lock:
                if self._waiting:
                    self._helpers -= 1
                    return

    def _watch(self, seconds: float | None) -> bool:
        """Handle one event at most; False when none came within `seconds` and no thread is owed."""
        owed = worker.due()
        with self._lock:
            self._waiting += 1
        try:
            told = self._poll.poll(seconds if owed is None else owed, 1)
        finally:
            with self._lock:
                self._waiting -= 1
        if owed is not None or (told and told[0][0] == worker.bell()):
            worker.settle()
        for descriptor, _ in told:
            try:
                self._hear(descriptor)
            except Exception:  # a failure with one container must not end the watch over all
                log.exception("the end of a container or an exec was not recorded")
        return bool(told) or owed is not None

    def _hear(self, descriptor: int) -> None:
        """Take one message of a link that was readable a moment ago; another thread may have taken it since."""
        try:
            self._take(descriptor)
        finally:
            with self._lock:
                if descriptor in self._names:
                    self._poll.modify(descriptor, _HEARD)

    def _take(self, descriptor: int) -> None:
        with self._lock:
            if descriptor in self._ends:
                # Several watching threads may be told of one end. By now the first has closed that socket, and another
                # one, which has not ended, may have got its number.
                if _told(descriptor, 0):  # a hang-up is always told
                    ended = self._ends.pop(descriptor)
                    self._poll.unregister(descriptor)
                    ended()
                return
            watched = self._names.get(descriptor)
            if watched is None:
                return
            name, heard = watched
            link = self._links.get(name)
            if link is None or not _readable(descriptor):
                return
            try:
                received = link.receive()
            except Invalid as error:  # perhaps from a monitor of another version; its container runs on
                log.warning("%s: a message of its monitor cannot be decoded: %s", name, error)
                return
            message = None if received is None else received[0]
            if message is None or isinstance(message, schema.Exited):
                self._poll.unregister(descriptor)
                del self._names[descriptor]
                del self._links[name]
                self._greetings.pop(name, None)
                self._ending[name] = link
                if message is not None and message.waiters:
                    self._part(name, link)
                else:
                    link.close()
        if isinstance(message, schema.Warned):
            log.warning("%s: %s", name, message.text)
            return
        if isinstance(message, schema.Started):  # the greeting of a monitor that was silent when it was adopted
            with self._lock:
                if name in self._links:
                    self._greetings[name] = message
            return
        if isinstance(message, schema.Exited | schema.Detached | None):
            try:
                with busy.about(name, "an end"):
                    heard(name, message)
            finally:
                with self._lock:
                    if self._ending.get(name) is link:
                        del self._ending[name]
        else:
            log.warning(
                "container %s: its monitor, or that of an exec, sent an unexpected %s", name, type(message).__name__
            )


def _readable(descriptor: int) -> bool:
    return _told(descriptor, select.POLLIN)


def _told(descriptor: int, events: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, events)
    return bool(poll.poll(0))

"""The daemon's links to the monitors: starting one, watching them all, and hearing of their ends.

One thread (`watch`) waits on every link with epoll and does at once what an end calls for: the common end costs no
change of threads. That may take long (a process that does not die, a resolver that does not answer), so whoever begins
it sees to it that somebody else is watching: a helper, who watches likewise and leaves when there was nothing for a
while. So ends are settled side by side, and in order for one container: a link that was heard is heard again only when
that is done (EPOLLONESHOT). The threads of the API start containers and execs, and send messages. Each has a link, by
its id, from the moment it runs until its end is known. Whoever speaks to a monitor waits for so long and no longer: it
may be stopped, or be held up by a disk.
"""

import logging
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable

from engine.daemon import busy, locks
from engine.daemon.runtime import handshake, signalling, worker
from engine.daemon.runtime.handshake import MonitorLost, SilentMonitor, TooSlow
from engine.daemon.runtime.spawner import Spawner
from engine.errors import Conflict, Invalid, SystemFailure
from engine.wire import codec, endpoint, exitfile, waits
from engine.wire.channel import Channel
from engine.wire.schema import (
    Attach,
    Detached,
    Exec,
    Exited,
    NamespacesReady,
    Proceed,
    Resize,
    Start,
    Started,
    Warned,
)
from engine.wire.waits import Wait

log = logging.getLogger(__name__)

_GREETING_SECONDS = 3.0
_WAITED_SECONDS = 0.01  # for a greeting that was waited for already
_KILLED_SECONDS = 5.0
_SEND_SECONDS = 10
"""How long a monitor may take none of what it is sent; a few hundred messages fit before anybody waits at all."""
_SEND_LIMIT = struct.pack("ll", _SEND_SECONDS, 0)  # struct timeval

_MOST_HELPERS = 15
_IDLE_SECONDS = 5.0  # that a helper waits: a busy daemon would make one for each end
_HEARD = select.EPOLLIN | select.EPOLLONESHOT

Heard = Callable[[str, Exited | Detached | None], None]
"""What is called with the id and what its monitor has told; None: that has died."""


class Monitors:
    """All links of a daemon.

    ended: called in a watching thread with (container id, Exited or None): None when the monitor itself has died
    detached: called there with the id of a container whose client has sent its detach keys
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
        self._keepers: set[str] = set()  # whose monitors keep those who wait
        self._parting: dict[str, list[Channel]] = {}  # to monitors that have told the end, and stay for those who wait
        self._names: dict[int, tuple[str, Heard]] = {}
        self._ends: dict[int, Callable[[], None]] = {}
        self._lock = locks.Lock("links")
        self._waiting = 0  # threads that watch and are not busy with an end
        self._helpers = 0
        self._poll = select.epoll()
        self._poll.register(worker.bell(), select.EPOLLIN)

    def start(
        self,
        container_id: str,
        start: Start,
        clients: list[socket.socket],
        meanwhile: Callable[[], None],
        connect: Callable[[int, int], None] = lambda _pid, _pid_start: None,
        *,
        ordinary: bool = False,
    ) -> Started:
        """Have the container made; `meanwhile` does the daemon's part (cgroups, addresses) while the spawner forks.

        connect: called with process 1 and when it started, once its namespaces are there: plugs in its networks
        ordinary: `sandbox.stage.suits` it, so that what the spawner has prepared may be taken.
        The link is not watched yet (see `keep`). Raises StartFailure with init's words when the command cannot be run
        or the sandbox cannot be made, SystemFailure when that takes too long (MonitorLost: the monitor has died, by no
        fault of the container's), Unavailable when there is no spawner to be had.
        """
        ours, theirs = Channel.pair()
        try:
            with theirs:
                descriptors = [theirs.fileno(), *(client.fileno() for client in clients)]
                self._spawner.send(start, descriptors, ordinary=ordinary)
            meanwhile()
            ready = handshake.expect(ours, NamespacesReady, container_id)
            connect(ready.pid, ready.pid_start)
            ours.send(Proceed())
            try:
                started = handshake.expect(ours, Started, container_id)
            except TooSlow:
                # It was told to go on, and would, without this daemon.
                if not signalling.kill_and_wait(ready.pid, ready.pid_start, _KILLED_SECONDS):
                    log.error("container %s: its process %d does not end after SIGKILL", container_id, ready.pid)
                raise
        except (BrokenPipeError, ConnectionResetError) as error:
            ours.close()
            raise MonitorLost("the container's monitor has died while it started") from error
        except BaseException:
            ours.close()
            raise
        self._have(container_id, ours, keeps_waiters=started.keeps_waiters)
        return started

    def _have(self, name: str, link: Channel, *, keeps_waiters: bool = False) -> None:
        link.socket.settimeout(None)
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _SEND_LIMIT)
        with self._lock:
            self._links[name] = link
            if keeps_waiters:
                self._keepers.add(name)

    def enter(
        self,
        exec_id: str,
        request: Exec,
        descriptors: list[int],
        home: Callable[[Channel], None] = lambda _: None,
        *,
        ordinary: bool = True,
    ) -> Started:
        """Have one more process made in a container. descriptors: process 1's pidfd, then the clients' sockets.

        home: called with the link before anybody is asked; gives the monitor its home (see `endpoint.HOME`)
        The link is not watched yet (see `keep`). Raises StartFailure, MonitorLost, Unavailable.
        """
        ours, theirs = Channel.pair()
        try:
            with theirs:
                home(ours)  # it waits in the link: from the request on the exec is known, whenever this daemon dies
                self._spawner.send(request, [theirs.fileno(), *descriptors], ordinary=ordinary)
            started = handshake.expect(ours, Started, f"exec {exec_id}")
        except (BrokenPipeError, ConnectionResetError) as error:
            ours.close()
            raise MonitorLost("the exec's monitor has died while it started") from error
        except BaseException:
            ours.close()
            raise
        self._have(exec_id, ours)
        return started

    def call(self, those: Iterable[tuple[str, str, str]]) -> None:
        """Before `adopt` and `adopt_exec`: knock at the monitors of all these, and give them time to answer, once.

        those: (id, exec directory, name of the socket in it) of containers or execs.

        Those that do not answer are waited for side by side, and hold up the daemon's start no longer than one of them.
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
        """Find a container again after a restart of the daemon: running, ended, or None: there is nothing of it.

        Raises SilentMonitor: it is there and does not answer (stopped, or waiting for a disk); no other container is to
        wait for it. Its link can be kept all the same, unless there was none to be had.
        """
        if container_id not in self._called:
            self.call([(container_id, exec_dir, endpoint.NAME)])
        link = self._called.pop(container_id)
        if isinstance(link, BlockingIOError):
            raise SilentMonitor(linked=False) from link
        if isinstance(link, OSError):
            return self.left_behind(exec_dir)
        try:
            greeting = handshake.greeting(link, container_id, _WAITED_SECONDS)
        except TooSlow as error:
            self._have(container_id, link)
            raise SilentMonitor(linked=True) from error
        except SystemFailure:
            link.close()
            return self.left_behind(exec_dir)
        if isinstance(greeting, Exited):
            with self._lock:
                self._part(container_id, link)
        else:
            self._have(container_id, link, keeps_waiters=greeting.keeps_waiters)
        return greeting

    def adopt_exec(self, exec_id: str) -> Started | None:
        """Find an exec again after a restart of the daemon, after a `call`: it runs, or None: nobody knows of it.

        Raises SilentMonitor as `adopt` does.
        """
        link = self._called.pop(exec_id)
        if isinstance(link, BlockingIOError):
            raise SilentMonitor(linked=False) from link
        if isinstance(link, OSError):
            return None
        try:
            greeting = handshake.expect(link, Started, f"exec {exec_id}", _WAITED_SECONDS)
        except TooSlow as error:
            self._have(exec_id, link)
            raise SilentMonitor(linked=True) from error
        except SystemFailure:
            link.close()  # it has just ended
            return None
        self._have(exec_id, link)
        return greeting

    @staticmethod
    def left_behind(exec_dir: str) -> Exited | None:
        """What the exit file says, None when there is none that can be understood."""
        content = exitfile.read(exec_dir)
        if content is None:
            return None
        try:
            exited = codec.decode(content)
            if not isinstance(exited, Exited):
                raise Invalid(f"{type(exited).__name__} is no end")
            return exited
        except Invalid as error:
            log.error("%s says nothing of how a container ended: %s", os.path.join(exec_dir, exitfile.EXIT), error)
            return None

    def drop(self, name: str) -> None:
        """Have no link any more with what is not to be watched: its start could not be recorded."""
        with self._lock:
            link = self._links.pop(name, None)
            self._keepers.discard(name)
            if link is None:
                return
            if self._names.pop(link.fileno(), None) is not None:
                self._poll.unregister(link.fileno())
            link.close()

    def keep(self, name: str, heard: Heard | None = None) -> None:
        """Watch the link of what is recorded as running: from now on its end is heard.

        heard: called with `Exited`, `Detached` or None (the monitor has died), for an exec; else what stands for
            containers. It may be called in a thread that looks (see `look`), and before this returns; it never waits.
        """
        with self._lock:
            link = self._links[name]
            self._poll.register(link.fileno(), _HEARD)
            self._names[link.fileno()] = (name, heard or self._container_heard)

    def _container_heard(self, container_id: str, message: Exited | Detached | None) -> None:
        if isinstance(message, Detached):
            self._detached(container_id)
        else:
            self._have_help()
            self._ended(container_id, message)

    def _have_help(self) -> None:
        """This may take long: have somebody watch meanwhile."""
        with self._lock:
            if self._waiting or self._helpers >= _MOST_HELPERS:
                return
            self._helpers += 1
        worker.begin("links", self._help)

    def look(self, name: str) -> bool:
        """Hear now what a monitor has told already; False when the link is no more: its end is being dealt with."""
        while True:
            with self._lock:
                link = self._links.get(name)
                if link is None:
                    return False
                descriptor = link.fileno()
                if descriptor not in self._names or not _readable(descriptor):
                    return True
            self._hear(descriptor)

    def send(self, container_id: str, message: Attach | Resize, descriptors: list[int]) -> None:
        """Tell a monitor something. Raises Conflict when the container is not running, SystemFailure when its monitor
        takes nothing for long.
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
        """Let the monitor keep one who waits, too; False when there is none that does. Waits for nobody.

        Raises BlockingIOError when the monitor has too much unread: it may be tried again.
        """
        with self._lock:
            if container_id not in self._keepers:
                return False
            try:
                self._links[container_id].send_word(waits.pack(wait), [descriptor])
            except BlockingIOError:
                raise
            except OSError as error:  # it has just ended, or there are too many descriptors on their way
                log.debug("container %s: its monitor keeps nobody who waits: %s", container_id, error)
                return False
        return True

    def answered(self, container_id: str, number: int) -> None:
        """One of those that were entrusted to the container's monitors was answered here."""
        self._tell_keepers(container_id, waits.pack_answered(number), running=True)

    def settled(self, container_id: str) -> None:
        """The end is recorded, and those who were waiting for it when this daemon began are to hear of it."""
        self._tell_keepers(container_id, waits.SETTLED)

    def removed(self, container_id: str) -> None:
        """The removal is recorded, and those who were waiting for it when this daemon began are to hear of it."""
        self._tell_keepers(container_id, waits.REMOVED)

    def _tell_keepers(self, container_id: str, word: bytes, running: bool = False) -> None:
        with self._lock:
            links = list(self._parting.get(container_id, ()))
            if running and container_id in self._keepers:
                links.append(self._links[container_id])
            for link in links:
                try:
                    link.send_word(word)
                except OSError as error:  # it is gone, or stands still and is none that anyone can wait for
                    log.debug("container %s: a monitor that stays for who waits was not told: %s", container_id, error)

    def _part(self, container_id: str, link: Channel) -> None:
        """Keep the link to a monitor that has told the end until it ends itself; the caller holds the lock."""
        self._parting.setdefault(container_id, []).append(link)
        self._ends[link.fileno()] = lambda: self._close_parted(container_id, link)
        self._poll.register(link.fileno(), 0)

    def _close_parted(self, container_id: str, link: Channel) -> None:
        links = self._parting[container_id]
        links.remove(link)
        if not links:
            del self._parting[container_id]
        link.close()

    def on_end(self, descriptor: int, ended: Callable[[], None]) -> None:
        """Have the thread that watches call this once, when the other end of a socket is closed; it reads nothing."""
        with self._lock:
            self._ends[descriptor] = ended
            self._poll.register(descriptor, 0)

    def off_end(self, descriptor: int) -> None:
        """Do not any more; to be called before the socket is closed."""
        with self._lock:
            if self._ends.pop(descriptor, None) is not None:
                self._poll.unregister(descriptor)

    def shown(self) -> list[tuple[str, int, bool]]:
        """Each link: whose it is, its descriptor, whether its end is watched for; under no lock, as `dump` asks."""
        return [(name, link.fileno(), link.fileno() in self._names) for name, link in list(self._links.items())]

    def watch(self) -> None:
        """Hear of ends until the process ends, and see to threads that are owed; run in a thread of its own."""
        while True:
            self._watch(None)

    def _help(self) -> None:
        """Watch beside others, until there was nothing for a while and another one is there to watch."""
        while True:
            if self._watch(_IDLE_SECONDS):
                continue
            with self._lock:
                if self._waiting:
                    self._helpers -= 1
                    return

    def _watch(self, seconds: float | None) -> bool:
        """Hear of one thing at most; False when there was none, and no thread is owed, for that long."""
        owed = worker.due()
        with self._lock:
            self._waiting += 1
        try:
            told = self._poll.poll(seconds if owed is None else owed, 1)
        finally:
            with self._lock:
                self._waiting -= 1
        worker.settle()
        for descriptor, _ in told:
            try:
                self._hear(descriptor)
            except Exception:  # one container's trouble must not end the watch over all
                log.exception("the end of a container or an exec was not recorded")
        return bool(told) or owed is not None

    def _hear(self, descriptor: int) -> None:
        """Take one message of a link that had one a moment ago: another thread may have taken it since."""
        try:
            self._take(descriptor)
        finally:
            with self._lock:
                if descriptor in self._names:
                    self._poll.modify(descriptor, _HEARD)

    def _take(self, descriptor: int) -> None:
        with self._lock:
            ended = self._ends.pop(descriptor, None)
            if ended is not None:
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
            except Invalid as error:  # of another version's monitor, perhaps: its container runs on
                log.warning("%s: a monitor is not understood: %s", name, error)
                return
            message = None if received is None else received[0]
            if message is None or isinstance(message, Exited):
                self._poll.unregister(descriptor)
                del self._names[descriptor]
                del self._links[name]
                self._keepers.discard(name)
                if message is not None and message.waiters:
                    self._part(name, link)
                else:
                    link.close()
        if isinstance(message, Warned):
            log.warning("%s: %s", name, message.text)
            return
        if isinstance(message, Started):  # the greeting of a monitor that was silent when it was adopted
            with self._lock:
                if message.keeps_waiters and name in self._links:
                    self._keepers.add(name)
            return
        if isinstance(message, Exited | Detached | None):
            with busy.about(name, "an end"):
                heard(name, message)
        else:
            log.warning(
                "container %s: its monitor, or that of an exec, said %s out of turn", name, type(message).__name__
            )


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))

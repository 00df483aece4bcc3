"""The daemon's links to the monitors: starting one, watching them all, and hearing of their ends.

One thread (`watch`) waits on every link with epoll and runs what an end calls for; the threads of the API start
containers and execs, and send messages. Each has a link, by its id, from the moment it runs until its end is known.
"""

import logging
import os
import select
import socket
import threading
from collections.abc import Callable

from engine.daemon.runtime.spawner import Spawner
from engine.errors import Conflict, Invalid, SystemFailure
from engine.wire import codec, endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.messages import Detached, Exec, Exited, Failed, NamespacesReady, Proceed, Start, Started, Warned

log = logging.getLogger(__name__)

_GREETING_SECONDS = 3.0

Heard = Callable[[str, Exited | Detached | None], None]
"""What is called with the id and what its monitor has told; None: that has died."""


class Links:
    """All links of a daemon.

    ended: called in the watching thread with (container id, Exited or None): None when the monitor itself has died
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
        self._names: dict[int, tuple[str, Heard]] = {}
        self._ends: dict[int, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._poll = select.epoll()

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
        The link is not watched yet (see `keep`). Raises Invalid with init's text and `exit_code` when the command
        cannot be run, SystemFailure when the sandbox cannot be made (MonitorLost: by no fault of the container's),
        Unavailable when there is no spawner to be had.
        """
        ours, theirs = Channel.pair()
        try:
            with theirs:
                descriptors = [theirs.fileno(), *(client.fileno() for client in clients)]
                self._spawner.send(start, descriptors, ordinary=ordinary)
            meanwhile()
            ready = self._expect(ours, NamespacesReady)
            connect(ready.pid, ready.pid_start)
            ours.send(Proceed())
            started = self._expect(ours, Started)
        except (BrokenPipeError, ConnectionResetError) as error:
            ours.close()
            raise MonitorLost("the container's monitor has died while it started") from error
        except BaseException:
            ours.close()
            raise
        with self._lock:
            self._links[container_id] = ours
        return started

    def enter(self, exec_id: str, request: Exec, descriptors: list[int], *, ordinary: bool = True) -> Started:
        """Have one more process made in a container. descriptors: process 1's pidfd, then the clients' sockets.

        The link is not watched yet (see `keep`). Raises StartFailure, MonitorLost, Unavailable.
        """
        ours, theirs = Channel.pair()
        try:
            with theirs:
                self._spawner.send(request, [theirs.fileno(), *descriptors], ordinary=ordinary)
            started = self._expect(ours, Started, exec_id)
        except (BrokenPipeError, ConnectionResetError) as error:
            ours.close()
            raise MonitorLost("the exec's monitor has died while it started") from error
        except BaseException:
            ours.close()
            raise
        with self._lock:
            self._links[exec_id] = ours
        return started

    @staticmethod
    def _expect(link: Channel, kind: type, name: str = "") -> object:
        while True:
            received = link.receive()
            if received is None:
                raise MonitorLost("the container's monitor has died while it started")
            message, _ = received
            if not isinstance(message, Warned):
                break
            log.warning("exec %s: %s", name, message.text)
        if isinstance(message, Failed):
            raise StartFailure(message)
        if not isinstance(message, kind):
            raise SystemFailure(f"the container's monitor said {type(message).__name__} for {kind.__name__}")
        return message

    def adopt(self, container_id: str, exec_dir: str) -> Started | Exited | None:
        """Find a container again after a restart of the daemon: running, ended, or None: there is nothing of it.

        Raises SilentMonitor: it is there and does not answer (stopped, or waiting for a disk); no other container is to
        wait for it. Its link can be kept all the same, unless there was none to be had.
        """
        try:
            link = Channel(endpoint.connect(exec_dir, _GREETING_SECONDS))
        except (FileNotFoundError, ConnectionRefusedError):
            return self.left_behind(exec_dir)
        except BlockingIOError as error:
            raise SilentMonitor(linked=False) from error
        try:
            greeting = self._expect(link, Started)
            link.socket.settimeout(None)
        except TimeoutError as error:
            link.socket.settimeout(None)
            with self._lock:
                self._links[container_id] = link
            raise SilentMonitor(linked=True) from error
        except SystemFailure:
            link.close()
            return self.left_behind(exec_dir)
        with self._lock:
            self._links[container_id] = link
        return greeting

    @staticmethod
    def left_behind(exec_dir: str) -> Exited | None:
        """What the exit file says, None when there is none."""
        content = exitfile.read(exec_dir)
        return None if content is None else codec.decode(content)

    def keep(self, name: str, heard: Heard | None = None) -> None:
        """Watch the link of what is recorded as running: from now on its end is heard.

        heard: called with `Exited`, `Detached` or None (the monitor has died), for an exec; else what stands for
            containers. It may be called in a thread that looks (see `look`), and before this returns.
        """
        with self._lock:
            link = self._links[name]
            self._names[link.fileno()] = (name, heard or self._container_heard)
            self._poll.register(link.fileno(), select.EPOLLIN)

    def _container_heard(self, container_id: str, message: Exited | Detached | None) -> None:
        if isinstance(message, Detached):
            self._detached(container_id)
        else:
            self._ended(container_id, message)

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

    def send(self, container_id: str, message: object, descriptors: list[int]) -> None:
        """Tell a monitor something; raises Conflict when the container is not running."""
        with self._lock:
            link = self._links.get(container_id)
        try:
            if link is None:
                raise BrokenPipeError
            link.send(message, descriptors)
        except OSError as error:
            raise Conflict(f"container {container_id} is not running") from error

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

    def watch(self) -> None:
        """Hear of ends until the process ends; run in a thread of its own."""
        while True:
            for descriptor, _ in self._poll.poll():
                try:
                    self._hear(descriptor)
                except Exception:  # one container's trouble must not end the watch over all
                    log.exception("the end of a container or an exec was not recorded")

    def _hear(self, descriptor: int) -> None:
        """Take one message of a link that had one a moment ago: another thread may have taken it since."""
        with self._lock:
            ended = self._ends.pop(descriptor, None)
            if ended is not None:
                self._poll.unregister(descriptor)
                ended()
                return
            name, heard = self._names.get(descriptor, ("", None))
            link = self._links.get(name)
            if link is None or not _readable(descriptor):
                return
            try:
                received = link.receive()
            except Invalid:
                received = None
            message = None if received is None else received[0]
            if message is None or isinstance(message, Exited):
                self._poll.unregister(descriptor)
                del self._names[descriptor]
                del self._links[name]
                link.close()
        if isinstance(message, Started):
            return  # the greeting of a monitor that was silent when it was adopted
        if isinstance(message, Exited | Detached | None):
            heard(name, message)
        else:
            log.warning("%s: a monitor said %s out of turn", name, type(message).__name__)


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class MonitorLost(SystemFailure):
    """The monitor has died before the container ran."""


class SilentMonitor(SystemFailure):
    """A monitor has not answered in time; `linked`: its end will be heard nevertheless, once the link is kept."""

    def __init__(self, linked: bool) -> None:
        super().__init__("its monitor does not answer")
        self.linked = linked


class StartFailure(SystemFailure):
    """Process 1 never came to execve; carries the monitor's `Failed`."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)
        self.failed = failed


def exec_dir(exec_root: str, container_id: str) -> str:
    """Where the files of a running container are: its monitor's socket and its exit file."""
    return os.path.join(exec_root, "containers", container_id)

"""The daemon's side of the start of a container or an exec: asks the spawner, and exchanges messages with the monitor.

Runs in the threads that start a container or an exec, or that adopt one after a restart of the daemon. It holds no
lock, because it waits. Each wait has a time limit: the monitor may be stopped, or be held up by a disk.
"""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator

from engine.annotating import TypeVar
from engine.daemon.runtime import signalling
from engine.daemon.runtime.spawner import Spawner
from engine.errors import Invalid, SystemFailure
from engine.wire import codec, exitfile
from engine.wire.channel import Channel
from engine.wire.schema import Exec, Exited, Failed, Message, NamespacesReady, Proceed, Start, Started, Warned

log = logging.getLogger(__name__)

T = TypeVar("T")


def _tell_of_other_form(kind: str, theirs: str) -> None:
    log.info("a process of another engine version wrote a message: %s has the form %r", kind, theirs)


codec.on_other_form(_tell_of_other_form)  # before the first message of a monitor; a spawner tells its version

_KILLED_SECONDS = 5.0
START_SECONDS = 120.0
"""The most seconds from one message of a monitor to the next while a container starts. The longest step is a mount
whose server does not answer; the kernel gives most of those up in less time. No other step takes nearly as long."""


class MonitorLost(SystemFailure):
    """The monitor has died before the container or exec ran."""


class TooSlow(SystemFailure):
    """A monitor has not sent the expected message in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the start was given up after {seconds:.0f} seconds without a sign of life: a mount, a disk or the host "
            "does not answer"
        )


class SilentMonitor(SystemFailure):
    """A monitor has not answered in time; `linked`: there is a link, and once it is kept the monitor's end is seen."""

    def __init__(self, linked: bool) -> None:
        super().__init__("its monitor does not answer")
        self.linked = linked


# Scripts look for these words of dockerd's, containerd's and runc's, in whose place the engine stands.
NOT_CREATED = "failed to create task for container: failed to create shim task: OCI runtime create failed: "
BY_RUNC = "runc create failed: "


class StartFailure(SystemFailure):
    """Process 1 failed before its execve; `failed` is the monitor's message."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.text)
        self.failed = failed


def start(
    spawner: Spawner,
    container_id: str,
    request: Start | bytes,
    clients: list[socket.socket],
    meanwhile: Callable[[], None],
    connect: Callable[[int, int], None],
    *,
    ordinary: bool,
    opened: tuple[int, ...],
) -> tuple[Channel, Started]:
    """Have the spawner make a container; meanwhile `meanwhile` does the daemon's part (cgroups, addresses).

    connect: called with the pid and start time of process 1 once its namespaces exist; connects its networks
    ordinary: the spawner may take a spare (`sandbox.stage.suits`); opened: what goes with a request of `births`
    Returns the link to its monitor. Raises StartFailure with init's words when the command or the sandbox
    cannot be made, SystemFailure when that takes too long, MonitorLost when the monitor has died, Unavailable.
    """
    with _link("the container's monitor") as (ours, theirs):
        with theirs:
            descriptors = [theirs.fileno(), *opened, *(client.fileno() for client in clients)]
            spawner.send(request, descriptors, ordinary=ordinary)
        try:
            meanwhile()
            ready = expect(ours, NamespacesReady, container_id)
            connect(ready.pid, ready.pid_start)
        except (TooSlow, StartFailure):
            raise
        except BaseException:
            let_end(ours, container_id, _KILLED_SECONDS)
            raise
        ours.send(Proceed())
        try:
            started = expect(ours, Started, container_id)
        except TooSlow:
            # The monitor was told to go on. It would run the container later, unknown to the daemon.
            if not signalling.kill_and_wait(ready.pid, ready.pid_start, _KILLED_SECONDS):
                log.error("container %s: its process %d does not end after SIGKILL", container_id, ready.pid)
            raise
    return ours, started


def enter(
    spawner: Spawner,
    exec_id: str,
    request: Exec | bytes,
    descriptors: list[int],
    home: Callable[[Channel], None],
    *,
    ordinary: bool,
) -> tuple[Channel, Started]:
    """Have the spawner make an exec in a container. descriptors: pidfd of process 1, then the clients' sockets.

    home: called with the link before the request is sent; sends the monitor its home (see `endpoint.HOME`)
    Returns the link to its monitor. Raises StartFailure, MonitorLost, Unavailable.
    """
    with _link("the exec's monitor") as (ours, theirs):
        with theirs:
            home(ours)  # queued in the link before the request: a next daemon finds the exec whenever this one dies
            spawner.send(request, [theirs.fileno(), *descriptors], ordinary=ordinary)
        started = expect(ours, Started, f"exec {exec_id}")
    return ours, started


@contextlib.contextmanager
def _link(peer: str) -> Iterator[tuple[Channel, Channel]]:
    """Both ends of a link to a monitor that is to start; where that fails, the daemon's end is closed.

    Raises MonitorLost where `peer` has gone.
    """
    ours, theirs = Channel.pair()
    try:
        yield ours, theirs
    except (BrokenPipeError, ConnectionResetError) as error:
        ours.close()
        raise MonitorLost(f"{peer} has died while it started") from error
    except BaseException:
        ours.close()
        raise


def expect(link: Channel, kind: type[T], name: str, seconds: float | None = None) -> T:
    """The next message of a monitor, which must be of this kind; warnings before it are logged.

    name: the container or exec of the monitor, for the log; seconds: the time limit, `START_SECONDS` for None
    Raises StartFailure, MonitorLost, TooSlow; SystemFailure for a message of another kind.
    """
    message = _next(link, name, seconds or START_SECONDS)
    if not isinstance(message, kind):
        raise _unexpected(message, kind.__name__)
    return message


def let_end(link: Channel, name: str, seconds: float) -> None:
    """Have a monitor that was not told to go on give up, and wait until it has ended, or so long.

    Until then it may write into the exec directory that it was given by name, and that may be the next start's.
    """
    latest = time.monotonic() + seconds
    try:
        link.socket.shutdown(socket.SHUT_WR)
        while True:
            link.socket.settimeout(max(latest - time.monotonic(), 0.001))
            if not link.socket.recv(1):
                return
    except TimeoutError:
        log.error("%s: the monitor of its failed start does not end", name)
    except OSError:
        pass  # it was gone already


def greeting(link: Channel, name: str, seconds: float) -> Started | Exited:
    """The greeting of a container's monitor to a daemon that adopts it. Parameters and errors are those of `expect`."""
    message = _next(link, name, seconds)
    if not isinstance(message, Started | Exited):
        raise _unexpected(message, "Started or Exited")
    return message


def left_behind(exec_dir: str) -> Exited | None:
    """How a container ended by its exit file; None when there is none or it cannot be decoded."""
    content = exitfile.read(exec_dir)
    if content is None:
        return None
    try:
        exited = codec.decode(content)
        if not isinstance(exited, Exited):
            raise Invalid(f"{type(exited).__name__} is not an Exited message")
        return exited
    except Invalid as error:
        log.error("the exit file %s cannot be decoded: %s", os.path.join(exec_dir, exitfile.EXIT), error)
        return None


def _next(link: Channel, name: str, seconds: float) -> Message:
    latest = time.monotonic() + seconds
    while True:
        try:
            link.socket.settimeout(max(latest - time.monotonic(), 0.001))
            received = link.receive()
        except TimeoutError as error:
            raise TooSlow(seconds) from error
        except Invalid as error:
            log.warning("%s: a message of its monitor cannot be decoded: %s", name, error)
            continue
        if received is None:
            raise MonitorLost("the container's monitor has died while it started")
        message, _ = received
        if isinstance(message, Failed):
            raise StartFailure(message)
        if not isinstance(message, Warned):
            return message
        log.warning("%s: %s", name, message.text)


def _unexpected(message: Message, wanted: str) -> SystemFailure:
    return SystemFailure(f"the monitor sent {type(message).__name__} where {wanted} was expected")

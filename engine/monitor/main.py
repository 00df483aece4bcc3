"""Entry points of the process that the spawner has forked as a monitor, one for each container or exec.

It has one thread. It owns the container's pipes or terminal, its log, its attached clients and its exit status, and
depends on no other process: when the daemon is gone it goes on, and a new daemon finds it by its socket. It never
imports the daemon. With the C muxer it splits at once: a child, the launcher, launches the container, hands it over and
ends. The monitor itself does not leave C meanwhile, so that it shares all but a few pages with the spawner.
"""

import contextlib
import os
import signal
import socket
from collections.abc import Callable

from engine.errors import Invalid
from engine.kernel import reasons, syscalls, title
from engine.logs import opening
from engine.monitor import enter, forwarder, launch, life
from engine.monitor.handover import Processes
from engine.monitor.parts import Parts
from engine.wire import channel, endpoint, exitfile, packed
from engine.wire.channel import Channel
from engine.wire.schema import Exec, Failed, Start

_LOST = 125
_NO_ROOM = "failed to create task for container: the exec root cannot be used: "


def main(data: bytes, descriptors: list[int], made_of: Parts) -> int:
    """Be the whole monitor of what this request (`Start`, `Exec`) asks for; returns the process's exit status."""
    settle()
    return _be_whole(data, descriptors, made_of)


def be_spare(wants: Channel, made_of: Parts, stage: str) -> int:
    """Be the whole monitor of a container whose request comes later, on this channel; returns the exit status.

    stage: an empty directory in which its init prepares. The channel is closed when the container has been started.
    """
    settle()
    title.become("spare")
    spare = launch.prepare(stage)
    request = wants.receive_packed()
    if request is None:
        return 0
    return _be_whole(*request, made_of, spare, wants.close)


def _be_whole(
    data: bytes,
    descriptors: list[int],
    made_of: Parts,
    spare: launch.Spare | None = None,
    after_launch: Callable[[], None] = lambda: None,
) -> int:
    request = _understood(data, descriptors)
    if request is None:
        return 1
    asked, descriptors = request
    if isinstance(asked, Exec):
        title.become("exec", packed.unpack(asked.process).id[:12])
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)  # the joiner's child is to become this process's child
        return _told(descriptors[0], lambda: _enter_and_see_through(asked, descriptors, made_of))
    title.become("monitor", os.path.basename(asked.exec_dir)[:12])
    link, *clients = descriptors
    return _guarded(asked.exec_dir, lambda: _do_both(asked, link, clients, made_of, spare, after_launch))


def be(part: str, processes: Processes, stage: str) -> int:
    """Be one of the processes of a monitor (`engine.monitor.nativeprocess`); returns the process's exit status.

    part: `launches`, `prepares` or `prepares exec`; stage: an empty directory in which a spare prepares
    """
    spare = None
    if part == "prepares":
        spare = launch.prepare(stage)
    elif part == "prepares exec":
        enter.prepare()
    if part != "launches" and not processes.take():
        return 0
    request = _understood(*processes.request)
    if request is None:
        return 1
    asked, descriptors = request
    if isinstance(asked, Exec):
        prepared = part == "prepares exec"
        return _told(descriptors[0], lambda: enter.become_joiner(asked, descriptors, processes, prepared))
    processes.name("launch", os.path.basename(asked.exec_dir)[:12])
    link, *clients = descriptors
    return _guarded(asked.exec_dir, lambda: _launch(asked, link, clients, processes, spare))


def settle() -> None:
    """Begin a session of its own, and replace the standard streams by /dev/null.

    A reader of the daemon's standard streams must see their end when the daemon ends.
    """
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the spawner ignores it; a monitor waits for its children
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _understood(data: bytes, descriptors: list[int]) -> tuple[Start | Exec, list[int]] | None:
    """The request and its descriptors; None for a datagram that is no request, of which the daemon was told."""
    try:
        request, passed = channel.unpack(data, descriptors)
        if not isinstance(request, Start | Exec):
            raise Invalid(f"{type(request).__name__} is not a request that a spawner serves")
        return request, passed
    except Invalid as error:
        link = channel.link_of(data, descriptors)
        if link >= 0:
            with contextlib.suppress(OSError):  # the daemon is not there any more
                Channel.adopt(link).send(Failed("monitor", 0, str(error), _LOST))
        return None


def _guarded(exec_dir: str, work: Callable[[], None]) -> int:
    """Do the work; write a failure into a file of the exec directory, because there is no process to tell it to.

    An exec has no such directory: its failure is not written.
    """
    try:
        work()
    except BaseException:
        if exec_dir:
            exitfile.write_crash(exec_dir)
        return 1
    return 0


def _told(link: int, work: Callable[[], None]) -> int:
    """Do the work of an exec; a failure is told to the daemon."""
    try:
        work()
    except BaseException as error:
        with contextlib.suppress(OSError):  # the daemon is not there any more
            os.set_inheritable(link, False)
            Channel.adopt(os.dup(link)).send(
                Failed("monitor", 0, f"{type(error).__name__}: {reasons.whole(error)}", _LOST)
            )
        return 1
    return 0


def _settle_in(exec_dir: str, link: Channel) -> socket.socket | None:
    """Prepare the exec directory before there is a container: reserve the exit file's space, and make the listening
    socket.

    Returns None where that fails; the daemon was told why.
    """
    try:
        exitfile.reserve(exec_dir)
        return endpoint.listen(exec_dir)
    except OSError as error:
        text = reasons.of(error)
        link.send(Failed("exec root", error.errno or 0, f"{_NO_ROOM}{exec_dir}: {text}", opening.NOT_TRIED))
        return None


def _do_both(
    start: Start,
    link: int,
    clients: list[int],
    made_of: Parts,
    spare: launch.Spare | None,
    after_launch: Callable[[], None],
) -> None:
    channel_to_daemon = Channel.adopt(link)
    listener = _settle_in(start.exec_dir, channel_to_daemon)
    if listener is None:
        return
    with listener:
        logged = forwarder.begin(start, clients, channel_to_daemon)
        if logged is None:
            return
        launched = launch.launch(start, channel_to_daemon, spare)
        after_launch()
        if launched is not None:
            start, clients = logged
            life.begin(start, launched, channel_to_daemon, listener, clients, made_of)


def _enter_and_see_through(asked: Exec, descriptors: list[int], made_of: Parts) -> None:
    link, pidfd, *clients = descriptors
    channel_to_daemon = Channel.adopt(link)
    entered = enter.enter(asked, channel_to_daemon, pidfd)
    if entered is not None:
        life.begin(asked, entered, channel_to_daemon, None, clients, made_of)


def _launch(start: Start, link: int, clients: list[int], processes: Processes, spare: launch.Spare | None) -> None:
    channel_to_daemon = Channel.adopt(link)
    listener = _settle_in(start.exec_dir, channel_to_daemon)
    if listener is None:
        return
    with listener:
        logged = forwarder.begin(start, clients, channel_to_daemon)
        if logged is None:
            return
        launched = launch.launch(start, channel_to_daemon, spare)
        if launched is None:
            return
        start, clients = logged
        try:
            processes.hand_over(life.handed(start, launched, link, listener, clients))
        except BaseException:
            signal.pidfd_send_signal(launched.pidfd, signal.SIGKILL)  # it must not run without a monitor
            raise

"""The monitor's way in: one forked process a container, from the spawner's fork to the container's end.

One thread. It owns the container's pipes or terminal, its log, its attached clients and its exit status, and needs
nobody: with the daemon gone it goes on, and a new daemon finds it by its socket. It never imports the daemon. With the
C muxer it splits at once: a child launches the container, hands over and ends, while this process has not left C, so
that its memory stays the spawner's but for a few pages.
"""

import os
import signal
import traceback
from collections.abc import Callable

from engine.logs.twin import Twin
from engine.monitor import launch, life
from engine.wire import channel, endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.messages import Start


def main(data: bytes, descriptors: list[int], twin: Twin) -> int:
    """Be the whole monitor of the container that this request (`Start`) asks for; returns the process's exit status."""
    _settle()
    start, link, clients = _opened(data, descriptors)
    return _guarded(start.exec_dir, lambda: _do_both(start, link, clients, twin))


def be(part: str, stay: object, stage: str) -> int:
    """Be one part of a monitor (`engine.logs.stay`); returns the process's exit status.

    part: `launches`, `prepares` or `stays`; stage: an empty directory for what a spare prepares
    """
    if part == "stays":
        stayed = stay.awake()
        return _guarded(f"/proc/self/fd/{stayed.exec_dir}", lambda: life.go_on(stayed))
    spare = None
    if part == "prepares":
        spare = launch.prepare(stage)
        if not stay.take():
            return 0
    start, link, clients = _opened(*stay.request)
    return _guarded(start.exec_dir, lambda: _launch(start, link, clients, stay, spare))


def _settle() -> None:
    """A session of its own, and no standard streams: whoever reads the daemon's must see their end when it ends."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the spawner's children are nobody's to wait for
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _opened(data: bytes, descriptors: list[int]) -> tuple[Start, int, list[int]]:
    start, (link, *clients) = channel.unpack(data, descriptors)
    return start, link, clients


def _guarded(exec_dir: str, work: Callable[[], None]) -> int:
    """Do the work; what goes wrong is left in a file, as there is nobody to tell."""
    try:
        work()
    except BaseException:
        exitfile.write(exec_dir, traceback.format_exc().encode(), exitfile.CRASH)
        return 1
    return 0


def _do_both(start: Start, link: int, clients: list[int], twin: Twin) -> None:
    with endpoint.listen(start.exec_dir) as listener:
        channel_to_daemon = Channel.adopt(link)
        launched = launch.launch(start, channel_to_daemon)
        if launched is not None:
            life.begin(start, launched, channel_to_daemon, listener, clients, twin)


def _launch(start: Start, link: int, clients: list[int], stay: object, spare: launch.Spare | None) -> None:
    with endpoint.listen(start.exec_dir) as listener:
        launched = launch.launch(start, Channel.adopt(link), spare)
        if launched is None:
            return
        try:
            stay.hand_over(life.handed(start, launched, link, listener, clients))
        except BaseException:
            signal.pidfd_send_signal(launched.pidfd, signal.SIGKILL)  # it must not run without a monitor
            raise

"""The monitor's way in: one forked process a container, from the spawner's fork to the container's end.

One thread. It owns the container's pipes or terminal, its log, its attached clients and its exit status, and needs
nobody: with the daemon gone it goes on, and a new daemon finds it by its socket. It never imports the daemon, and after
the start it lives in `Pump.run`, so that its memory stays shared with the spawner's.
"""

import os
import signal
import traceback

from engine.logs import twin
from engine.monitor import launch, life
from engine.wire import channel, endpoint, exitfile
from engine.wire.channel import Channel
from engine.wire.messages import Start


def preload(muxer: str = "auto") -> None:
    """Load, before the first fork, what a monitor and its init will use."""
    twin.select(muxer)


def main(data: bytes, descriptors: list[int]) -> int:
    """Be the monitor of the container that this request (`Start`) asks for; returns the exit status of the process."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _leave_terminal()
    start, (link, *clients) = channel.unpack(data, descriptors)
    try:
        return _run(start, Channel.adopt(link), clients)
    except BaseException:
        exitfile.write(start.exec_dir, traceback.format_exc().encode(), exitfile.CRASH)
        return 1


def _leave_terminal() -> None:
    """Let go of the daemon's standard streams: whoever reads them must see their end when the daemon ends."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _run(start: Start, link: Channel, clients: list[int]) -> int:
    with endpoint.listen(start.exec_dir) as listener:
        launched = launch.launch(start, link)
        if launched is None:
            return 1
        life.live(start, launched, link, listener, clients)
    return 0

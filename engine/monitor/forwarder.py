"""The process beside a monitor that sends a container's lines to a log driver which is not a file (syslog, gelf, ...).

The monitor forks it before the container is made; it ends when its socket is closed. To the monitor it is one more
attached client: when it takes no more, the container waits (mode blocking), unless its lines may be dropped
(non-blocking). It outlives the daemon, like the monitor. If it is killed, the container runs on and the log that the
engine itself keeps goes on.
"""

import _thread
import contextlib
import os
import select
import signal
import socket
import time
from types import FrameType

from engine.dataclass import replace
from engine.errors import EngineError
from engine.kernel import title
from engine.late import TYPE_CHECKING, late
from engine.logs import format, opening
from engine.logs.drivers.sender import Sender
from engine.logs.target import Forward
from engine.wire.channel import Channel
from engine.wire.schema import Client, Failed, Start

if TYPE_CHECKING:  # the spawner keeps their code, and few monitors run it
    from engine.logs.drivers import fluentsender, gelfsender, journald, pluginsender, ring, splunksender, syslog
else:
    fluentsender = late("engine.logs.drivers.fluentsender")
    gelfsender = late("engine.logs.drivers.gelfsender")
    journald = late("engine.logs.drivers.journald")
    pluginsender = late("engine.logs.drivers.pluginsender")
    ring = late("engine.logs.drivers.ring")
    splunksender = late("engine.logs.drivers.splunksender")
    syslog = late("engine.logs.drivers.syslog")

_DRIVERS = {
    "fluentd": fluentsender,
    "gelf": gelfsender,
    "journald": journald,
    "plugin": pluginsender,
    "splunk": splunksender,
    "syslog": syslog,
}
"""The module with the class `Sender` of each driver."""

_END_SECONDS = 10  # how long it may send what is left after the container has ended, and then how long say so


class _TimeIsUp(BaseException):
    """Raised by the signal's handler, out of whatever waits."""


def begin(start: Start, clients: list[int], link: Channel) -> tuple[Start, list[int]] | None:
    """Start the forwarder, if the request asks for one.

    Returns the start and its clients' sockets with the forwarder's socket among them; unchanged for a start that
    forwards nothing. None when the driver cannot be used; the daemon was told why.
    """
    forward = start.log.forward
    if forward is None:
        return start, clients
    try:
        sender: Sender = _DRIVERS[forward.driver].Sender(dict(forward.values))
    except EngineError as error:
        link.send(Failed("log", 0, opening.REFUSED + str(error), opening.NOT_TRIED))
        return None
    theirs, ours = socket.socketpair()
    if os.fork() == 0:
        try:
            title.become("forward", os.path.basename(start.exec_dir)[:12])
            # No other descriptor of the monitor may stay open here, or the peers of those descriptors would never see
            # their end.
            _close_others({ours.fileno(), sender.fileno()} - {-1})
            _forward(forward, sender, ours)
        finally:
            os._exit(0)
    ours.close()
    if sender.fileno() >= 0:
        os.close(sender.fileno())
    asked = replace(start, clients=(*start.clients, Client(streams=2 | 4, framed=True)))
    return asked, [*clients, theirs.detach()]


def _close_others(kept: set[int]) -> None:
    place = 3
    for descriptor in sorted(kept):
        os.closerange(place, descriptor)
        place = descriptor + 1
    os.closerange(place, os.sysconf("SC_OPEN_MAX"))


def _forward(forward: Forward, sender: Sender, source: socket.socket) -> None:
    sender.begin()
    waiting = ring.Ring(sender.send, forward.most) if forward.most else None
    lines = Lines(waiting.put if waiting is not None else sender.send)
    signal.signal(signal.SIGALRM, _tell_time)
    _thread.start_new_thread(_await_end, (source.fileno(), _thread.get_ident()))
    with contextlib.suppress(_TimeIsUp), source.makefile("rb") as frames:
        while len(head := frames.read(format.FRAME.size)) == format.FRAME.size:
            stream, size = format.FRAME.unpack(head)
            lines.feed(stream, frames.read(size))
        lines.end()
        if waiting is not None:
            waiting.end()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_END_SECONDS)  # SIGALRM ends this process
    sender.end()


def _await_end(source: int, main: int) -> None:
    """In a thread: when the monitor has gone, give the main thread some time.

    The main thread cannot look for that end while it waits for a receiver that takes nothing.
    """
    poll = select.poll()
    poll.register(source, 0)  # a hang-up is always told
    poll.poll()
    time.sleep(_END_SECONDS)
    signal.pthread_kill(main, signal.SIGALRM)


def _tell_time(_signal: int, _frame: FrameType | None) -> None:
    raise _TimeIsUp


class Lines:
    """Cuts chunks into lines as dockerd does.

    A line longer than 16 KiB goes in pieces of that size, which carry a common id and their number.
    """

    def __init__(self, send: "ring.Send") -> None:
        self._send = send
        self._held = dict.fromkeys(format.STREAMS, b"")
        self._pieces: dict[int, tuple[str, int, int]] = {}

    def feed(self, stream: int, chunk: bytes) -> None:
        """Take a chunk, and send the lines that it completes."""
        data, place = self._held[stream] + chunk, 0
        while place < len(data):
            newline = data.find(b"\n", place, place + format.LINE_LIMIT)
            if newline >= 0:
                self._piece(stream, data[place:newline], last=True)
                place = newline + 1
            elif len(data) - place >= format.LINE_LIMIT:
                self._piece(stream, data[place : place + format.LINE_LIMIT], last=False)
                place += format.LINE_LIMIT
            else:
                break
        self._held[stream] = data[place:]

    def end(self) -> None:
        """Send what is left of a line that has no end."""
        for stream, rest in self._held.items():
            if rest:
                self._piece(stream, rest, last=False)

    def _piece(self, stream: int, text: bytes, last: bool) -> None:
        known = self._pieces.pop(stream, None)
        if known is None and last:
            self._send(stream, text, None, time.time_ns())
            return
        identity, number, time_ns = known or (os.urandom(32).hex(), 0, time.time_ns())
        if not last:
            self._pieces[stream] = (identity, number + 1, time_ns)
        self._send(stream, text, (identity, number + 1, last), time_ns)

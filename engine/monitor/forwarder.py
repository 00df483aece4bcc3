"""The process beside a monitor that sends a container's lines to a log driver which is not a file (syslog, journald).

The monitor forks it before the container is made; it ends when its socket is closed. To the monitor it is one more
attached client: when it takes no more, the container waits (mode blocking), unless its lines may be dropped
(non-blocking). It outlives the daemon, like the monitor. If it is killed, the container runs on and the log that the
engine itself keeps goes on.
"""

import _thread
import os
import signal
import socket
from _queue import SimpleQueue  # `queue` has the same one, and imports `threading`
from collections.abc import Callable

from engine.dataclass import replace
from engine.errors import EngineError
from engine.kernel import title
from engine.late import TYPE_CHECKING, late
from engine.logs import format
from engine.logs.drivers.sender import Partial, Sender
from engine.logs.target import Forward
from engine.monitor import logs
from engine.wire.channel import Channel
from engine.wire.schema import Client, Failed, Start

if TYPE_CHECKING:  # the spawner keeps their code, and few monitors run it
    from engine.logs.drivers import journald, syslog
else:
    journald = late("engine.logs.drivers.journald")
    syslog = late("engine.logs.drivers.syslog")

_DRIVERS = {"journald": journald, "syslog": syslog}

_END_SECONDS = 10  # how long it may send what is left after the container has ended

_Send = Callable[[int, bytes, Partial | None], None]
"""Sends a line: its stream, the text without its end, and for a piece of a line which piece it is, else None."""


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
        link.send(Failed("log", 0, logs.REFUSED + str(error), logs.NOT_TRIED))
        return None
    theirs, ours = socket.socketpair()
    if os.fork() == 0:
        try:
            title.become("forward", os.path.basename(start.exec_dir)[:12])
            # No other descriptor of the monitor may stay open here, or the peers of those descriptors would never see
            # their end.
            _close_others(ours.fileno(), sender.fileno())
            _forward(forward, sender, ours)
        finally:
            os._exit(0)
    ours.close()
    os.close(sender.fileno())
    asked = replace(start, clients=(*start.clients, Client(streams=2 | 4, framed=True)))
    return asked, [*clients, theirs.detach()]


def _close_others(*kept: int) -> None:
    place = 3
    for descriptor in sorted(kept):
        os.closerange(place, descriptor)
        place = descriptor + 1
    os.closerange(place, os.sysconf("SC_OPEN_MAX"))


def _forward(forward: Forward, sender: Sender, source: socket.socket) -> None:
    send: _Send = sender.send
    ring = Ring(sender.send, forward.most) if forward.most else None
    if ring is not None:
        send = ring.put
    lines = Lines(send)
    with source.makefile("rb") as frames:
        while len(head := frames.read(format.FRAME.size)) == format.FRAME.size:
            stream, size = format.FRAME.unpack(head)
            lines.feed(stream, frames.read(size))
    signal.alarm(_END_SECONDS)  # SIGALRM ends this process
    lines.end()
    if ring is not None:
        ring.end()


class Lines:
    """Cuts chunks into lines as dockerd does.

    A line longer than 16 KiB goes in pieces of that size, which carry a common id and their number.
    """

    def __init__(self, send: _Send) -> None:
        self._send = send
        self._held = dict.fromkeys(format.STREAMS, b"")
        self._pieces: dict[int, tuple[str, int]] = {}

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
            self._send(stream, text, None)
            return
        identity, number = known or (os.urandom(32).hex(), 0)
        if not last:
            self._pieces[stream] = (identity, number + 1)
        self._send(stream, text, (identity, number + 1, last))


class Ring:
    """Lines that wait for a thread to send them. A line that finds the ring full is dropped, as dockerd drops it.

    most: how many bytes of text may wait; one line may wait whatever its size is
    """

    def __init__(self, send: _Send, most: int) -> None:
        self._send, self._most = send, most
        self._waiting: SimpleQueue[tuple[int, bytes, Partial | None] | None] = SimpleQueue()
        self._size = 0
        # Not `threading`, which takes much memory to be kept for this alone.
        self._counting, self._working = _thread.allocate_lock(), _thread.allocate_lock()
        self._working.acquire()
        _thread.start_new_thread(self._work, ())

    def put(self, stream: int, text: bytes, partial: Partial | None) -> None:
        """Put a line into the ring, or drop it if the ring is full."""
        with self._counting:
            if self._size and self._size + len(text) > self._most:
                return
            self._size += len(text)
        self._waiting.put((stream, text, partial))

    def end(self) -> None:
        """Return when all waiting lines are sent."""
        self._waiting.put(None)
        self._working.acquire()

    def _work(self) -> None:
        try:
            while (line := self._waiting.get()) is not None:
                with self._counting:
                    self._size -= len(line[1])
                self._send(*line)
        finally:
            self._working.release()

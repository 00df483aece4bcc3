"""Sends lines as messages of the Graylog Extended Log Format 1.1, over UDP (compressed, in chunks) or TCP.

Run by the process beside a monitor that forwards the container's lines (`engine.monitor.forwarder`). The format is
go2docs.graylog.org, "GELF"; how often a connection is tried again is as in dockerd.
"""

import contextlib
import os
import socket
import time
import zlib

from engine.asking import dial
from engine.errors import SystemFailure
from engine.logs.drivers import gojson, sender

_LEVELS = {1: 6, 2: 3}  # syslog(3): info for stdout, err for stderr
_WINDOWS = {"gzip": 31, "zlib": 15}  # zlib.compressobj's `wbits`
_DATAGRAM = 1420  # bytes, as in dockerd, so that none is cut in two on its way
_CHUNK = _DATAGRAM - 12  # without magic, id, number and count
_MOST_CHUNKS = 128  # of one message, by the format; dockerd drops a longer one too
_MAGIC = b"\x1e\x0f"
_SECONDS = 30.0  # to connect
_LEAVE_SECONDS = 2.0  # for the server to close a stream that has ended


class Sender(sender.Sender):
    """A connection to a server of GELF."""

    def __init__(self, values: dict[str, str]) -> None:
        """Connects. Raises SystemFailure in dockerd's words."""
        self._kind, self._place = values["kind"], values["place"]
        self._window, self._level = _WINDOWS.get(values["compression"]), int(values["level"])
        self._attempts, self._delay = int(values["attempts"]), int(values["delay"])
        self._extra = values["extra"].encode("utf-8", "surrogateescape")
        self._host = gojson.text(os.uname().nodename.encode("utf-8", "surrogateescape"))
        self._socket: socket.socket | None = None
        try:
            self._socket = dial.dial(self._kind, self._place, _SECONDS)
        except SystemFailure as error:
            raise SystemFailure(f"gelf: cannot connect to GELF endpoint: {self._place} {error}") from error

    def fileno(self) -> int:
        """The connection's descriptor; -1 while it is broken."""
        return self._socket.fileno() if self._socket is not None else -1

    def send(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        """Send a line as one message; an empty line is not sent, as in dockerd."""
        if not line:
            return
        milliseconds = time_ns // 1_000_000
        message = b'{"version":"1.1","host":%b,"short_message":%b,"timestamp":%d.%03d,"level":%d,%b}' % (
            self._host,
            gojson.text(line),
            milliseconds // 1000,
            milliseconds % 1000,
            _LEVELS[stream],
            self._extra,
        )
        if self._kind == "udp":
            self._send_datagrams(message)
        else:
            self._send_stream(message + b"\0")

    def end(self) -> None:
        """Let the server read the last message."""
        if self._socket is not None and self._kind == "tcp":
            dial.leave(self._socket, _LEAVE_SECONDS)

    def _send_datagrams(self, message: bytes) -> None:
        if self._window is not None:
            deflate = zlib.compressobj(self._level, zlib.DEFLATED, self._window)
            message = deflate.compress(message) + deflate.flush()
        if self._socket is None:
            return
        if len(message) <= _DATAGRAM:
            datagrams = [message]
        else:
            count = -(-len(message) // _CHUNK)
            if count > _MOST_CHUNKS:
                return
            head, identity = _MAGIC, os.urandom(8)
            datagrams = [
                head + identity + bytes((number, count)) + message[number * _CHUNK : (number + 1) * _CHUNK]
                for number in range(count)
            ]
        for datagram in datagrams:
            try:
                self._socket.send(datagram)
            except OSError:  # an earlier datagram found nobody, and this one was not sent
                with contextlib.suppress(OSError):
                    self._socket.send(datagram)

    def _send_stream(self, message: bytes) -> None:
        """Send all of it, over a new connection where the old one has broken; else it is lost."""
        for attempt in range(self._attempts + 1):
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.sendall(message)
                    return
                self._socket.close()
                self._socket = None
            if attempt < self._attempts:
                time.sleep(self._delay)
                with contextlib.suppress(SystemFailure):  # the next attempt waits again
                    self._socket = dial.dial(self._kind, self._place, _SECONDS)

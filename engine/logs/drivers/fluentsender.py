"""Sends lines as events of Fluentd's forward protocol, version 1, over TCP, TLS or a Unix socket, in MessagePack.

Run by the process beside a monitor that forwards the container's lines (`engine.monitor.forwarder`). The protocol is
github.com/fluent/fluentd/wiki/Forward-Protocol-Specification-v1, the format github.com/msgpack/msgpack. A line that
cannot be sent is tried again after a wait that grows by half each time, as often as the options say. With `async` the
lines wait in memory meanwhile; else the container waits.
"""

import base64
import contextlib
import json
import os
import socket
import time

from engine.asking import dial
from engine.errors import SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.logs.drivers import msgpack, ring, sender

if TYPE_CHECKING:  # loaded where TLS is asked for
    from engine.asking import secure
else:
    secure = late("engine.asking.secure")

_SOURCES = {1: b"stdout", 2: b"stderr"}
_GROWTH = 1.5
_LONGEST_WAIT = 60.0  # seconds between two attempts
_SECONDS = 3.0  # to connect, as in dockerd's client
_LEAVE_SECONDS = 2.0  # for the server to close a stream that has ended
_MOST_WAITING = 64 << 20  # bytes of lines, so that this process stays small whatever the limit is
_ANSWER = 1024  # bytes of an acknowledgement


class _Refused(OSError):
    """The server has acknowledged something else than what it was sent."""


class Sender(sender.Sender):
    """A connection to a server of Fluentd's forward protocol."""

    def __init__(self, values: dict[str, str]) -> None:
        """Connects, unless it sends asynchronously. Raises SystemFailure in dockerd's words."""
        self._kind, self._place = values["kind"], values["place"]
        self._tag = msgpack.text(values["tag"].encode("utf-8", "surrogateescape"))
        self._record = {
            name: msgpack.text(value.encode("utf-8", "replace")) for name, value in json.loads(values["record"]).items()
        }
        self._wait, self._retries = int(values["wait"]) / 1000, int(values["retries"])
        self._limit, self._renew = int(values["limit"]), int(values["renew"]) / 1000
        self._precise, self._acknowledged = bool(values["precise"]), bool(values["acknowledged"])
        self._write_seconds, self._read_seconds = int(values["write"]) / 1000, int(values["read"]) / 1000
        self._asynchronous = bool(values["async"])
        self._ring: ring.Ring | None = None
        self._connected_at = 0.0
        self._socket: socket.socket | None = None if self._asynchronous else self._connected()

    def fileno(self) -> int:
        """The connection's descriptor; -1 while there is none."""
        return self._socket.fileno() if self._socket is not None else -1

    def begin(self) -> None:
        """Begin the thread that sends, where lines are sent asynchronously."""
        if self._asynchronous:
            self._ring = ring.Ring(self._deliver, _MOST_WAITING, self._limit)

    def send(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        """Send a line as one event; an empty line too, as in dockerd."""
        (self._ring.put if self._ring is not None else self._deliver)(stream, line, partial, time_ns)

    def end(self) -> None:
        """Send what still waits."""
        if self._ring is not None:
            self._ring.end()
        if self._socket is not None:
            dial.leave(self._socket, _LEAVE_SECONDS)
            self._socket = None

    def _deliver(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> None:
        event, identity = self._event(stream, line, partial, time_ns)
        wait = self._wait
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(min(wait, _LONGEST_WAIT))
                wait *= _GROWTH
            with contextlib.suppress(OSError, SystemFailure):
                self._put(event, identity)
                return
            self._drop()

    def _event(self, stream: int, line: bytes, partial: sender.Partial | None, time_ns: int) -> tuple[bytes, bytes]:
        """The bytes of an event, and its id where it is to be acknowledged, else nothing."""
        record = {"source": msgpack.text(_SOURCES[stream]), "log": msgpack.text(line)} | self._record
        if partial is not None:
            piece, number, last = partial
            told = {"message": "true", "id": piece, "ordinal": str(number), "last": "true" if last else "false"}
            record |= {f"partial_{name}": msgpack.text(value.encode()) for name, value in told.items()}
        identity = base64.b64encode(os.urandom(16)) if self._acknowledged else b""
        option = {"chunk": msgpack.text(identity)} if identity else {}
        moment = msgpack.moment(time_ns) if self._precise else msgpack.number(time_ns // 10**9)
        return msgpack.array(self._tag, moment, msgpack.table(record), msgpack.table(option)), identity

    def _put(self, event: bytes, identity: bytes) -> None:
        if self._renew and time.monotonic() - self._connected_at > self._renew:
            self._drop()
        if self._socket is None:
            self._socket = self._connected()
        self._socket.settimeout(self._write_seconds or None)
        self._socket.sendall(event)
        if identity:
            self._socket.settimeout(self._read_seconds or None)
            answer = b""
            while not (told := msgpack.acknowledged(answer)):
                data = self._socket.recv(_ANSWER)
                answer += data
                if not data or len(answer) > _ANSWER:
                    raise _Refused("no acknowledgement")
            if told != identity:
                raise _Refused("another acknowledgement")

    def _connected(self) -> socket.socket:
        self._connected_at = time.monotonic()
        if self._kind != "tls":
            return dial.dial(self._kind, self._place, _SECONDS)
        host = self._place.rpartition(":")[0].strip("[]")
        made = secure.context(secure.Certificates())
        return secure.secured(dial.dial("tcp", self._place, _SECONDS), made, host, _SECONDS)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

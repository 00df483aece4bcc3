"""One HTTP/1.1 exchange after another over a connection to a program outside of the engine, each within a deadline.

Used by the threads that call plugins, and by the processes that send a container's lines elsewhere. What answers is
hostile: its head is bounded, its body is given out in pieces or bounded by the caller, and a peer that sends one byte
a second does not outlast the deadline. `http.client` has no such deadline, and loads a package for e-mail.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.protocols.http import ChunkDecoder

HEAD_LIMIT = 64 * 1024
_BLOCK = 64 * 1024
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([0-9]{3})(?: ([^\x00-\x08\x0a-\x1f\x7f]*))?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):([^\x00-\x08\x0a-\x1f\x7f]*)")
_LENGTH = re.compile(r"[0-9]{1,18}")
_NO_BODY = frozenset({204, 304})


class Malformed(Invalid):
    """The peer's answer is no answer of HTTP, or is larger than it may be."""


class Late(TimeoutError):
    """The deadline has passed."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer. length: of its body, None for one in chunks, -1 for one that ends with the connection"""

    status: int
    reason: str
    length: int | None
    keep_alive: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    reason: str
    body: bytes


class Exchange:
    """A connection over which requests go, one after another. It owns the socket.

    host: the value of the field Host
    """

    def __init__(self, connection: socket.socket, host: str) -> None:
        self._connection, self._host = connection, host
        self._arrived = b""
        self.usable = True

    def fileno(self) -> int:
        """The descriptor of the connection."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close the connection."""
        self.usable = False
        self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        fields: Mapping[str, str],
        body: bytes,
        seconds: float,
        most: int,
        cut: bool = False,
    ) -> Answer:
        """Send a request and read its answer.

        seconds: for all of it; most: bytes of the answer's body; cut: of a longer one the beginning is enough
        After any failure, and after a body that was cut, the connection is not `usable` any more.
        Raises OSError, Late, Malformed.
        """
        last = time.monotonic() + seconds
        self.usable = False
        head = self.begin(method, path, fields, body, seconds)
        got = bytearray()
        for piece in self.pieces(head, last):
            got += piece
            if len(got) > most:
                if cut:
                    return Answer(head.status, head.reason, bytes(got[:most]))
                raise Malformed(f"the answer is larger than {most} bytes")
        self.usable = head.keep_alive
        return Answer(head.status, head.reason, bytes(got))

    def begin(self, method: str, path: str, fields: Mapping[str, str], body: bytes, seconds: float) -> Head:
        """Send a request and read the head of its answer. Raises OSError, Late, Malformed."""
        last = time.monotonic() + seconds
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        lines.append(f"Content-Length: {len(body)}")
        if any("\r" in line or "\n" in line for line in lines):
            raise Malformed("a field of the request holds a line end")
        head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
        self._connection.settimeout(self._left(last))
        self._connection.sendall(head + body)
        while True:
            found = self._head(last)
            if found.status >= 200:
                return found

    def pieces(self, head: Head, last: float | None, ready: Callable[[], bool] | None = None) -> Iterator[bytes]:
        """The body of the answer in pieces.

        last: the moment (of time.monotonic) by which it must be whole; None: any. ready: waits until more has come, and
            returns False to end the reading
        Raises OSError, Late, Malformed (where it is cut too).
        """
        if head.length is None:
            decoder = ChunkDecoder()
            while not decoder.ended:
                data = self._more(last, ready)
                if data is None:
                    return
                if not data:
                    raise Malformed("unexpected EOF")
                try:
                    found, taken = decoder.feed(data)
                except Invalid as error:
                    raise Malformed(str(error)) from error
                self._arrived = data[taken:]
                yield from found
            return
        left = head.length
        while left:
            data = self._more(last, ready)
            if not data:
                if left < 0 or data is None:
                    return
                raise Malformed("unexpected EOF")
            piece = data if left < 0 else data[:left]
            self._arrived = data[len(piece) :]
            left -= len(piece) if left > 0 else 0
            yield piece

    def _more(self, last: float | None, ready: Callable[[], bool] | None) -> bytes | None:
        """What has come, or comes next; empty at the end of the connection, None where no more is wanted."""
        if self._arrived:
            return self._arrived
        # What TLS has decrypted already is not seen by poll(2).
        held = getattr(self._connection, "pending", None)
        if ready is not None and not (held is not None and held()) and not ready():
            return None
        return self._receive(last)

    def _head(self, last: float) -> Head:
        while (end := self._arrived.find(b"\r\n\r\n")) < 0:
            if len(self._arrived) > HEAD_LIMIT:
                raise Malformed("the head of the answer is too long")
            data = self._receive(last)
            if not data:
                raise Malformed("EOF" if not self._arrived else "unexpected EOF")
            self._arrived += data
        lines, self._arrived = self._arrived[:end].split(b"\r\n"), self._arrived[end + 4 :]
        started = _STATUS_LINE.fullmatch(lines[0])
        if started is None or end > HEAD_LIMIT:
            raise Malformed(f"malformed HTTP response {lines[0][:64].decode('latin-1')!a}")
        fields: dict[str, str] = {}
        for line in lines[1:]:
            field = _FIELD.fullmatch(line)
            if field is None:
                raise Malformed("malformed HTTP header")
            fields[field[1].decode().lower()] = field[2].strip(b" \t").decode("latin-1")
        status = int(started[2])
        length = _length(status, fields)
        options = fields.get("connection", "").lower()
        keeps = started[1] == b"1" and "close" not in options and length != -1
        return Head(status, (started[3] or b"").decode("latin-1"), length, keeps)

    def _receive(self, last: float | None) -> bytes:
        self._connection.settimeout(None if last is None else self._left(last))
        return self._connection.recv(_BLOCK)

    @staticmethod
    def _left(last: float) -> float:
        left = last - time.monotonic()
        if left <= 0:
            raise Late("the time is over")
        return left


def _length(status: int, fields: dict[str, str]) -> int | None:
    if status < 200 or status in _NO_BODY:
        return 0
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise Malformed("unsupported transfer encoding")
        return None
    if length is None:
        return -1
    if not _LENGTH.fullmatch(length):
        raise Malformed("bad Content-Length")
    return int(length)

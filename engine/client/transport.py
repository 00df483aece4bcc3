"""The client's HTTP/1.1 over a socket: connections, requests and responses, as much as the Engine API needs.

Runs in the client's one thread. http.client is not used: it cannot hand over a connection after `101 UPGRADED` together
with the bytes that it has read too far, and loading it takes longer than most verbs do. This module knows nothing of
the API.
"""

import json
import socket
from collections.abc import Iterable, Iterator, Mapping

from engine.annotating import Any
from engine.client.door.destination import Destination
from engine.client.door.dialling import connected
from engine.errors import SystemFailure

_HEAD_MAX = 64 * 1024
_PIECE = 64 * 1024
_BODILESS = frozenset((204, 304))

Object = dict[str, Any]
"""A JSON object, shaped by the API's definition."""


class Connection:
    """One connection to the daemon, kept alive between requests; a response must be read before the next request."""

    def __init__(self, place: Destination) -> None:
        """Connect to the daemon. Raises Unavailable."""
        self.socket = connected(place)
        self._buffer = b""

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | Iterable[bytes] | None = None,
    ) -> "Response":
        """Send one request and read the head of the answer.

        `body`: bytes, or pieces that are sent chunked as they come. Raises SystemFailure when the daemon closes the
        connection or answers with malformed HTTP.
        """
        lines = {"Host": "engine", "Content-Length": str(len(body)) if isinstance(body, bytes) else "0"}
        pieces = None if isinstance(body, bytes) else body
        if pieces is not None:
            lines["Transfer-Encoding"] = "chunked"
            del lines["Content-Length"]
        lines |= headers or {}
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        try:
            self.socket.sendall(head.encode() + b"\r\n" + (body if isinstance(body, bytes) else b""))
            if pieces is not None:
                self._send_chunks(pieces)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the daemon may refuse a body before it has read all of it: its answer says why
        return self._response(method)

    def _send_chunks(self, body: Iterable[bytes]) -> None:
        for piece in body:
            if piece:
                self.socket.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.socket.sendall(b"0\r\n\r\n")

    def _response(self, method: str) -> "Response":
        while True:
            status, headers = parse_head(self._head())
            if status != 100:
                return Response(self, method, status, headers)

    def _head(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _HEAD_MAX:
                raise SystemFailure("the daemon sent a response head larger than 64 KiB")
            self._fill()
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def _receive(self, most: int) -> bytes:
        """The bytes that have come in; empty at the end of the connection."""
        try:
            return self.socket.recv(most)
        except ConnectionResetError:  # a killed daemon resets the connection, which counts as its end
            return b""

    def _fill(self) -> None:
        data = self._receive(_PIECE)
        if not data:
            raise SystemFailure("the daemon closed the connection")
        self._buffer += data

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _some(self, most: int) -> bytes:
        """At least one byte and at most `most` bytes; empty at the end of the connection."""
        if not self._buffer:
            return self._receive(min(most, _PIECE))
        piece, self._buffer = self._buffer[:most], self._buffer[most:]
        return piece


class Response:
    """The answer to one request: `status`, `headers` (lower-case names), and a body that can be read once."""

    def __init__(self, connection: Connection, method: str, status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        self._empty = method == "HEAD" or status in _BODILESS or status < 200

    def __enter__(self) -> "Response":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def fileno(self) -> int:
        """The connection's descriptor, to poll for more of the answer."""
        return self._connection.socket.fileno()

    @property
    def ready(self) -> bool:
        """True when a part of the body is already here, so that the descriptor may never become readable."""
        return bool(self._connection._buffer)

    def pieces(self) -> Iterator[bytes]:
        """The body, piece by piece as it comes in. Raises SystemFailure when it is cut short."""
        if self._empty:
            return
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            yield from self._chunked()
        elif "content-length" in self.headers:
            yield from self._exactly(int(self.headers["content-length"]))
        else:
            while piece := self._connection._some(_PIECE):
                yield piece

    def _chunked(self) -> Iterator[bytes]:
        while size := int(self._connection._line().partition(b";")[0], 16):
            yield from self._exactly(size)
            self._connection._line()
        while self._connection._line():
            continue  # trailers, which the engine never sends

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._connection._some(size)
            if not piece:
                raise SystemFailure("the daemon closed the connection in the middle of an answer")
            size -= len(piece)
            yield piece

    def read(self) -> bytes:
        """The whole body."""
        return b"".join(self.pieces())

    def json(self) -> Any:
        """The whole body as JSON, shaped by the API's definition; None when it is empty."""
        data = self.read()
        return json.loads(data) if data.strip() else None

    def documents(self) -> Iterator[Object]:
        """The JSON documents of a progress stream, one a line, as they come in."""
        rest = b""
        for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            yield from (json.loads(line) for line in lines if line.strip())
        if rest.strip():
            yield json.loads(rest)

    def take_over(self) -> tuple[socket.socket, bytes]:
        """The raw connection after a hijack, which the caller owns now, and the bytes that were read past the head."""
        data, self._connection._buffer = self._connection._buffer, b""
        return self._connection.socket, data


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """The head of an answer, without the empty line, as (status, headers by lower-case name). Raises SystemFailure."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/1.") or not status.isdigit():
        raise SystemFailure(f"this is not an HTTP answer: {first[:80]}")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(status), headers

"""Raw HTTP/1.1 over a Unix socket, as small as can be, so that a test sees every byte that the daemon says.

Used by the test process only. It never retries, never follows, never hides: a connection that closes early is an
`EOFError`, and whatever follows the head of a hijacked connection is read by `Connection.read`.
"""

import json
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.harness.pace import patient

HEAD_END = b"\r\n\r\n"


class Answer(NamedTuple):
    """One whole answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The text of an error answer."""
        return str(self.json()["message"])

    @property
    def lines(self) -> list[dict]:
        """The body as JSON values one a line, as image streams are."""
        return [json.loads(line) for line in self.body.splitlines() if line.strip()]


class Connection:
    """One connection to the daemon; a context manager."""

    def __init__(self, path: str | Path, timeout: float = 30.0) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(patient(timeout))
        self.buffer = b""
        try:
            self.socket.connect(str(path))
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close both directions."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.socket.sendall(data)

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        self.socket.shutdown(socket.SHUT_WR)

    def _fill(self) -> bool:
        data = self.socket.recv(1 << 18)
        self.buffer += data
        return bool(data)

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes; fewer only where the daemon has closed."""
        while len(self.buffer) < size and self._fill():
            pass
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def read_to_end(self) -> bytes:
        """Everything until the daemon closes."""
        while self._fill():
            pass
        data, self.buffer = self.buffer, b""
        return data

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to and including `mark`."""
        while mark not in self.buffer:
            if not self._fill():
                raise EOFError(f"the daemon closed after {self.buffer!r}, before {mark!r}")
        end = self.buffer.index(mark) + len(mark)
        data, self.buffer = self.buffer[:end], self.buffer[end:]
        return data

    def send_request(
        self,
        method: str,
        target: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send one request. A dict or list goes as JSON, bytes as they are, another iterable of bytes as chunks."""
        fields = {"Host": "test", **(headers or {})}
        chunks: Iterable[bytes] = ()
        data = b""
        if isinstance(body, dict | list):
            data = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        elif isinstance(body, bytes):
            data = body
        elif body is not None:
            chunks = body
            fields["Transfer-Encoding"] = "chunked"
        if "Transfer-Encoding" not in fields and (body is not None or method in ("POST", "PUT")):
            fields.setdefault("Content-Length", str(len(data)))
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send(head.encode("latin-1") + b"\r\n")
        try:
            self._send_body(data, chunks, fields.get("Transfer-Encoding") == "chunked")
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was sent: the answer is there to read

    def _send_body(self, data: bytes, chunks: Iterable[bytes], chunked: bool) -> None:
        self.send(data)
        for chunk in chunks:
            if chunk:
                self.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if chunked:
            self.send(b"0\r\n\r\n")

    def read_head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the next answer, an interim one (1xx) included."""
        status_line, *lines = self.read_until(HEAD_END)[:-4].decode("latin-1").split("\r\n")
        protocol, status = status_line.split(" ")[:2]
        assert protocol == "HTTP/1.1", status_line
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(status), headers

    def chunks(self) -> Iterator[bytes]:
        """The chunks of a chunked body, each as it comes, until the last."""
        while size := int(self.read_until(b"\r\n").split(b";")[0], 16):
            data = self.read(size)
            assert len(data) == size, f"a chunk of {size} bytes ended after {len(data)}"
            assert self.read(2) == b"\r\n"
            yield data
        assert self.read(2) == b"\r\n"

    def read_body(self, method: str, status: int, headers: dict[str, str]) -> bytes:
        """The body that belongs to this head."""
        if method == "HEAD" or status < 200 or status in (204, 304):
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(self.chunks())
        if "content-length" in headers:
            size = int(headers["content-length"])
            body = self.read(size)
            assert len(body) == size, f"a body of {size} bytes ended after {len(body)}"
            return body
        return self.read_to_end()

    def read_answer(self, method: str = "GET") -> Answer:
        """The next whole answer; interim answers before it are skipped."""
        status, headers = self.read_head()
        while 100 <= status < 200 and status != 101:
            status, headers = self.read_head()
        return Answer(status, headers, self.read_body(method, status, headers))

    def request(self, method: str, target: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """One request and its whole answer."""
        self.send_request(method, target, body, headers)
        return self.read_answer(method)

    def open_stream(
        self, method: str, target: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str]]:
        """One request and the head of its answer; the caller goes on with `chunks` or `read`."""
        self.send_request(method, target, body, headers)
        return self.read_head()

    def hijack(self, target: str, upgrade: bool = True) -> dict[str, str]:
        """Ask for a hijacked connection; afterwards the connection carries the raw stream. Returns the headers."""
        headers = {"Connection": "Upgrade", "Upgrade": "tcp"} if upgrade else {}
        status, answered = self.open_stream("POST", target, None, headers)
        if status != (101 if upgrade else 200):
            raise AssertionError(f"{status}: {self.read_body('POST', status, answered)!r}")
        return answered

"""The benchmarks' HTTP client: the API calls of a container's life with little cost of their own, and streams that are
only counted.

Used by the benchmarks, with one kept-alive `Connection` a thread. The HTTP is that of the tests' harness.
"""

import json
from collections.abc import Callable
from pathlib import Path

from tests.harness import http

# A slow engine may take long to write a container's log, and it answers `wait` only after that.
TIMEOUT = 300.0
ROOM = 1 << 20
LAST_CHUNK = b"\r\n0\r\n\r\n"


class UnexpectedAnswer(Exception):
    """An engine gave another answer than the benchmark needs."""


class Connection(http.Connection):
    """One connection to an engine; `prefix` is put before the path of each call (`/v1.41`)."""

    def __init__(self, path: Path | str, prefix: str = "") -> None:
        super().__init__(path, TIMEOUT)
        self.prefix = prefix

    def send_request(
        self, method: str, target: str, body: object = None, headers: dict[str, str] | None = None
    ) -> None:
        """Send one request; one with a body of JSON by one call, as the clients of docker do."""
        if not isinstance(body, dict):
            super().send_request(method, target, body, headers)
            return
        data = json.dumps(body)
        fields = {"Host": "bench", "Content-Type": "application/json", "Content-Length": len(data), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.send(f"{method} {target} HTTP/1.1\r\n{lines}\r\n{data}".encode())

    def call(
        self,
        method: str,
        target: str,
        body: object = None,
        expected: int = 200,
        headers: dict[str, str] | None = None,
    ) -> http.Answer:
        """One request and its whole answer. Raises UnexpectedAnswer when the status is not the expected one."""
        answer = self.request(method, self.prefix + target, body, headers)
        if answer.status != expected:
            raise UnexpectedAnswer(f"{method} {target}: {answer.status} {answer.body[:300].decode(errors='replace')}")
        return answer

    def count(self, target: str) -> int:
        """GET as the connection's last request; returns the number of bytes after the head.

        The chunk headers count too: to decode them here would measure this client.
        """
        status, _ = self.open_stream("GET", self.prefix + target, None, {"Connection": "close"})
        if status != 200:
            raise UnexpectedAnswer(f"GET {target}: {status}")
        return self.drain()

    def again(self, target: str) -> Callable[[], bytes]:
        """A function that sends one GET, always the same bytes, and returns its whole answer as it came.

        It parses no more than it needs to find the end: a client that takes longer than the engine would be measured.
        Raises UnexpectedAnswer for any status but 200.
        """
        request = f"GET {self.prefix}{target} HTTP/1.1\r\nHost: bench\r\n\r\n".encode()

        def once() -> bytes:
            self.socket.sendall(request)
            data = self.socket.recv(ROOM)
            while (end := data.find(http.HEAD_END)) < 0:
                data += self.socket.recv(ROOM)
            head = data[:end].lower()
            if not head.startswith(b"http/1.1 200 "):
                raise UnexpectedAnswer(f"GET {target}: {data[:300].decode(errors='replace')}")
            pieces, last = [data], data
            _, found, length = head.partition(b"\r\ncontent-length:")
            if found:
                left = end + len(http.HEAD_END) + int(length.partition(b"\r\n")[0]) - len(data)
                while left > 0:
                    pieces.append(self.socket.recv(ROOM))
                    left -= len(pieces[-1])
            else:
                while not last.endswith(LAST_CHUNK):
                    pieces.append(self.socket.recv(ROOM))
                    last = last[-len(LAST_CHUNK) :] + pieces[-1]
            return b"".join(pieces)

        return once

    def drain(self) -> int:
        """Read to the end of the connection; returns the number of bytes."""
        total = len(self.buffer)
        room = bytearray(ROOM)
        while size := self.socket.recv_into(room):
            total += size
        return total


def create(connection: Connection, image: str, argv: list[str], network: str = "none", /, **more: object) -> str:
    """Create a container of `image` that runs `argv` and return its id; `more` goes into the body."""
    body = {"Image": image, "Cmd": argv, "HostConfig": {"NetworkMode": network}, **more}
    return str(connection.call("POST", "/containers/create", body, 201).json()["Id"])


def start(connection: Connection, container: str) -> None:
    """Start a container."""
    connection.call("POST", f"/containers/{container}/start", expected=204)


def wait(connection: Connection, container: str) -> int:
    """Wait for a container's end and return its exit code."""
    return int(connection.call("POST", f"/containers/{container}/wait").json()["StatusCode"])


def logs(connection: Connection, container: str, query: str = "stdout=1") -> bytes:
    """The container's log, in the frames in which it came."""
    return connection.call("GET", f"/containers/{container}/logs?{query}").body


def remove(connection: Connection, container: str, force: bool = False) -> None:
    """Remove a container, with `force` even while it runs."""
    connection.call("DELETE", f"/containers/{container}{'?force=1' if force else ''}", expected=204)

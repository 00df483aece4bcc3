"""A client at one end of a socket pair, the engine's connection at the other, and any function as the application."""

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from engine.daemon.api.connection import Application, Connection


class Client:
    """The client's end, with an answer reader that is no code of the engine's."""

    def __init__(self, end: socket.socket, thread: threading.Thread):
        self.socket = end
        self._thread = thread
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def finish_sending(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def line(self) -> bytes:
        while b"\n" not in self._buffer:
            if not self._fill():
                raise EOFError(self._buffer)
        line, _, self._buffer = self._buffer.partition(b"\n")
        assert line.endswith(b"\r")
        return line[:-1]

    def bytes(self, count: int) -> bytes:
        while len(self._buffer) < count:
            if not self._fill():
                raise EOFError(self._buffer)
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def rest(self) -> bytes:
        """Everything until the server closes."""
        while self._fill():
            pass
        data, self._buffer = self._buffer, b""
        return data

    def _fill(self) -> bool:
        data = self.socket.recv(65536)
        self._buffer += data
        return bool(data)

    def head(self) -> tuple[int, dict[str, str]]:
        status = int(self.line().split(b" ")[1])
        headers = {}
        while line := self.line():
            name, _, value = line.decode("latin-1").partition(": ")
            assert name.lower() not in headers
            headers[name.lower()] = value
        return status, headers

    def chunks(self) -> list[bytes]:
        found = []
        while size := int(self.line(), 16):
            found.append(self.bytes(size))
            assert self.line() == b""
        assert self.line() == b""
        return found

    def answer(self, to_head: bool = False) -> tuple[int, dict[str, str], bytes]:
        status, headers = self.head()
        if to_head or status in (101, 204, 304):
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, b"".join(self.chunks())
        if "content-length" in headers:
            return status, headers, self.bytes(int(headers["content-length"]))
        return status, headers, self.rest()

    def ask(self, method: str, target: str, body: bytes = b"", content_type: str = "application/json"):
        """One request and its answer; the body as JSON where it is."""
        head = f"{method} {target} HTTP/1.1\r\n"
        if body:
            head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        self.send(head.encode() + b"\r\n" + body)
        status, headers, data = self.answer(method == "HEAD")
        is_json = headers.get("content-type") == "application/json" and data
        return status, headers, json.loads(data) if is_json else data

    def is_closed(self) -> bool:
        """Wait for the server's thread to end, and see that it has closed its end behind it."""
        self._thread.join(30)
        return not self._thread.is_alive() and not self.rest()


@pytest.fixture
def connect() -> Iterator[Callable[[Application], Client]]:
    """Make a client of an application; `closing` says that the server is to end."""
    clients = []

    def make(application: Application, closing: Callable[[], bool] = lambda: False) -> Client:
        near, far = socket.socketpair()
        near.settimeout(30)

        def run() -> None:
            if Connection(far, application, closing).serve():
                far.close()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        clients.append(Client(near, thread))
        return clients[-1]

    yield make
    for client in clients:
        client.socket.close()
        client._thread.join(30)
        assert not client._thread.is_alive()

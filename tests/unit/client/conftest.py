"""A daemon of canned answers, for the tests of the client."""

import socket
import threading

import pytest

from engine.client.door.destination import Destination


class Canned:
    """Answers each connection with the next of `answers` once a request's head is in; keeps what was asked."""

    def __init__(self, path):
        self.path = str(path)
        self.place = Destination("unix", path=self.path)
        self.answers = []
        self.asked = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed: the test is over
                return
            with connection:
                self._answer(connection)

    def _answer(self, connection):
        data = b""
        while b"\r\n\r\n" not in data and (piece := connection.recv(65536)):
            data += piece
        if not data:
            return
        head, _, body = data.partition(b"\r\n\r\n")
        asked = head.decode()
        wanted = [int(line[15:]) for line in asked.splitlines() if line.startswith("Content-Length:")]
        while len(body) < sum(wanted) or ("chunked" in asked and not body.endswith(b"0\r\n\r\n")):
            body += connection.recv(65536)
        self.asked.append((asked, body))
        for piece in self.answers.pop(0):
            connection.sendall(piece)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.fixture
def canned(tmp_path):
    daemon = Canned(tmp_path / "s")
    yield daemon
    daemon.close()


def answer(status, body, kind="application/json"):
    """An answer with its length, as one piece."""
    head = f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return [head.encode() + body]

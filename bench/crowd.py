"""Many clients in one thread, each of which runs container after container: create, start, wait, delete.

Used in the benchmarks' process. Threads of Python would get in each other's way, and take processors from the engine
that is measured: sixteen of them took twice as long for their work.
"""

import json
import selectors

from bench import image
from bench.client import ROOM, Connection, UnexpectedAnswer
from bench.peers import Daemon
from tests.harness.http import HEAD_END

_BODY = {"Image": image.NAME, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}}
_STEPS = (("POST", "/start", 204), ("POST", "/wait", 200), ("DELETE", "", 204))
_LAST_CHUNK = b"0\r\n\r\n"


class _Client:
    """One client: its connection, and how far its container has come."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._answer = b""
        self._container = ""
        self._step = 0

    def begin(self) -> None:
        """Ask for the next container."""
        self.connection.send_request("POST", f"{self.connection.prefix}/containers/create", _BODY)

    def go_on(self) -> bool:
        """Take what has come of the answer, and ask for the next step; True when the container has been deleted."""
        data = self.connection.socket.recv(ROOM)
        self._answer += data
        if not data:
            raise UnexpectedAnswer(f"the engine closed after {self._answer!r}")
        body = whole_body(self._answer)
        if body is None:
            return False
        expected = _STEPS[self._step - 1][2] if self._step else 201
        if self._answer.split(b" ", 2)[1] != b"%d" % expected:
            raise UnexpectedAnswer(self._answer.decode(errors="replace"))
        if not self._step:
            self._container = json.loads(body)["Id"]
        self._answer = b""
        if self._step == len(_STEPS):
            self._step = 0
            return True
        method, suffix, _ = _STEPS[self._step]
        self._step += 1
        target = f"{self.connection.prefix}/containers/{self._container}{suffix}"
        self.connection.send_request(method, target)
        return False


def whole_body(answer: bytes) -> bytes | None:
    """The body of an answer that has come whole, in its chunks if it has any; None while something is missing."""
    head, found, body = answer.partition(HEAD_END)
    if not found:
        return None
    lines = head.lower().split(b"\r\n")
    if lines[0].split(b" ")[1] in (b"204", b"304"):
        return b""
    length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
    missing = len(body) < length if length is not None else not body.endswith(_LAST_CHUNK)
    return None if missing else body


def run(daemon: Daemon, total: int, width: int) -> None:
    """Run `total` containers, `width` at a time. Raises UnexpectedAnswer, OSError."""
    clients = [_Client(daemon.connect()) for _ in range(width)]
    left = total
    with selectors.EpollSelector() as selector:
        try:
            for client in clients[:total]:
                selector.register(client.connection.socket, selectors.EVENT_READ, client)
                client.begin()
                left -= 1
            while selector.get_map():
                for key, _ in selector.select():
                    if not key.data.go_on():
                        continue
                    if left:
                        key.data.begin()
                        left -= 1
                    else:
                        selector.unregister(key.fileobj)
        finally:
            for client in clients:
                client.connection.close()

"""An agent of ssh whose signatures are easily foreseen, and a program for containers that asks one.

Source: draft-ietf-sshm-ssh-agent. Clients of BuildKit do not pass bytes on: they read each request, and ask it anew.
"""

import contextlib
import socketserver
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

_FAILURE, _SIGN_REQUEST, _SIGN_RESPONSE = 5, 13, 14

# Sends standard input to the agent of SSH_AUTH_SOCK, and writes its one answer, without the length, to standard output.
# It waits half a minute for it.
ASKER = r"""
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
int main(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char data[4096];
    uint32_t left;
    strncpy(name.sun_path, getenv("SSH_AUTH_SOCK"), sizeof name.sun_path - 1);
    struct timeval patience = {.tv_sec = 30};
    int agent = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(agent, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(agent, (struct sockaddr *)&name, sizeof name)) return 2;
    ssize_t length = read(0, data, sizeof data);
    if (length < 0 || write(agent, data, length) != length) return 3;
    if (recv(agent, &left, sizeof left, MSG_WAITALL) != sizeof left) return 4;
    for (left = ntohl(left); left; left -= length) {
        length = read(agent, data, left < sizeof data ? left : sizeof data);
        if (length <= 0 || write(1, data, length) != length) return 5;
    }
    return 0;
}
"""


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _strings(data: bytes, count: int) -> list[bytes]:
    """The strings at the beginning of a message."""
    found = []
    for _ in range(count):
        (length,) = struct.unpack_from(">I", data)
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found


KEY = _string(b"ssh-ed25519") + _string(bytes(range(32)))


def sign_request(data: bytes) -> bytes:
    """What asks for a signature of the data, with its length."""
    return _string(bytes((_SIGN_REQUEST,)) + _string(KEY) + _string(data) + bytes(4))


def signature(agent: str, data: bytes) -> bytes:
    """How the agent of that name signs the data; its answer ends with it."""
    return agent.encode() + b" signs " + data[::-1]


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        """Answer until the other has gone."""
        with contextlib.suppress(ConnectionError):
            while len(head := self.rfile.read(4)) == 4:
                self.wfile.write(_string(self._answer(self.rfile.read(*struct.unpack(">I", head)))))

    def _answer(self, message: bytes) -> bytes:
        if message[:1] != bytes((_SIGN_REQUEST,)):
            return bytes((_FAILURE,))
        key, data = _strings(message[1:], 2)
        if key != KEY:
            return bytes((_FAILURE,))
        assert isinstance(self.server, _Server)
        signed = _string(b"ssh-ed25519") + _string(signature(self.server.name, data))
        return bytes((_SIGN_RESPONSE,)) + _string(signed)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self.name = name


@contextlib.contextmanager
def serving(name: str, path: Path) -> Iterator[None]:
    """An agent of that name, at a socket of that path."""
    with _Server(name, path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()

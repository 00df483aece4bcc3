"""A socket for clients of BuildKit that speak plain HTTP/2, whose connections lead to a daemon's /grpc."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.harness.daemon import Daemon
from tests.harness.frontends import dial
from tests.harness.links import LONG

_PIECE = 65536


@contextlib.contextmanager
def upgrading(daemon: Daemon, place: Path) -> Iterator[str]:
    """The address of such a socket at `place`, for clients within the `with`."""
    threads: list[threading.Thread] = []
    opened: list[socket.socket] = []

    def begin(source: socket.socket, sink: socket.socket) -> None:
        threads.append(threading.Thread(target=_copy, args=(source, sink)))
        threads[-1].start()

    def accept(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # which ends it
            while True:
                client, _ = listening.accept()
                peer = dial(daemon, "/grpc")
                peer.settimeout(None)
                opened.extend((client, peer))
                begin(client, peer)
                begin(peer, client)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        accepting = threading.Thread(target=accept, args=(listening,))
        accepting.start()
        try:
            yield f"unix://{place}"
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            accepting.join(LONG)
            for each in opened:
                with contextlib.suppress(OSError):  # it has ended already
                    each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(LONG)
            for each in opened:
                each.close()
            place.unlink()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)

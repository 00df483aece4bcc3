"""A link of BuildKit's API whose thread runs, for tests that are one end of a connection."""

import contextlib
import socket
import threading
from collections.abc import Iterator

from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.serving import Method, Server
from tests.harness.pace import patient

LONG = patient(20)  # seconds within which it ends on any machine


@contextlib.contextmanager
def running(peer: socket.socket, client: bool, methods: dict[str, Method] | None = None) -> Iterator[Link]:
    """The link, which is over at the end. client: this end opens the calls; methods: what it serves, by their paths"""
    link = Link(peer, client, Server((methods or {}).get).accept)
    thread = threading.Thread(target=link.run)
    thread.start()
    try:
        yield link
    finally:
        link.close()
        thread.join(LONG)
        assert not thread.is_alive()

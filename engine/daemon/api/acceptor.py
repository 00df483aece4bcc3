"""Accepts on every listener and gives each connection a thread of its own.

Not on `socketserver`: its loop polls twice a second for a shutdown, and an idle daemon is to stay asleep; one thread
that blocks in accept(2) is shorter than what would have to be overridden.
"""

import logging
import socket
import threading
import time
from collections.abc import Iterable

from engine.daemon.api.connection import Application, Connection
from engine.daemon.api.listeners import Listener

log = logging.getLogger(__name__)

# Python frames live on the heap, so a stack only holds C calls. `body` bounds the deepest of them, nested JSON; this
# size is for the next, getaddrinfo(3) and OpenSSL. What is not touched costs no memory, only address space.
STACK_SIZE = 256 * 1024
_EXHAUSTED_PAUSE = 0.1


class Acceptor:
    """Serves `application` on the listeners, which are its own from here on."""

    def __init__(self, listeners: Iterable[Listener], application: Application):
        self._listeners = tuple(listeners)
        self._application = application
        self._connections: dict[Connection, tuple[socket.socket, threading.Thread]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._acceptors: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to accept; returns at once."""
        threading.stack_size(STACK_SIZE)
        for listener in self._listeners:
            thread = threading.Thread(target=self._accept, args=(listener,), name=f"accept {listener.address}")
            thread.daemon = True
            self._acceptors.append(thread)
            thread.start()
            log.info("API listen on %s", listener.address)

    def stop(self, seconds: float = 5.0) -> None:
        """Accept no more, let the answers under way end for at most `seconds`, then hang up."""
        self._closing.set()
        for listener in self._listeners:
            listener.close()
        for thread in self._acceptors:
            thread.join()
        until = time.monotonic() + seconds
        for how, when in ((socket.SHUT_RD, until), (socket.SHUT_RDWR, until + 1)):
            with self._lock:
                remaining = list(self._connections.items())
            for connection, (peer, _) in remaining:
                if how == socket.SHUT_RDWR or connection.idle:
                    _shut(peer, how)
            for _, (_, thread) in remaining:
                thread.join(max(0.0, when - time.monotonic()))

    def _accept(self, listener: Listener) -> None:
        while not self._closing.is_set():
            try:
                peer = listener.accept()
            except OSError as error:
                if self._closing.is_set():
                    return
                # Out of descriptors or memory: the connections that end give some back.
                log.error("cannot accept on %s: %s", listener.address, error)
                self._closing.wait(_EXHAUSTED_PAUSE)
                continue
            self._start_connection(peer)

    def _start_connection(self, peer: socket.socket) -> None:
        connection = Connection(peer, self._application, self._closing.is_set)
        thread = threading.Thread(target=self._serve, args=(connection, peer), name="api", daemon=True)
        with self._lock:
            self._connections[connection] = (peer, thread)
        try:
            thread.start()
        except RuntimeError as error:
            # No thread to be had: this client is turned away, the daemon goes on.
            log.error("cannot serve a connection: %s", error)
            self._forget(connection)
            peer.close()

    def _serve(self, connection: Connection, peer: socket.socket) -> None:
        owned = True
        try:
            owned = connection.serve()
        finally:
            self._forget(connection)
            if owned:
                peer.close()

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            self._connections.pop(connection, None)


def _shut(peer: socket.socket, how: int) -> None:
    try:
        peer.shutdown(how)
    except OSError as error:
        # ENOTCONN, EBADF: it ended by itself in the meantime, which is what was wanted.
        log.debug("connection was closed already: %s", error)

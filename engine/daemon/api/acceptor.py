"""Accepts on every listener and gives each connection a thread of its own.

`socketserver` with one server a listener; its loop polls twice a second for a shutdown by default, and an idle daemon
is to stay asleep, so it waits without a limit and is woken by an eventfd.
"""

import logging
import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Iterable

from engine.daemon import locks
from engine.daemon.api.connection import Application, Connection
from engine.daemon.api.listeners import Listener
from engine.kernel import memory

log = logging.getLogger(__name__)

# Python frames live on the heap, so a stack only holds C calls. `body` bounds the deepest of them, nested JSON; this
# size is for the next, getaddrinfo(3) and OpenSSL. What is not touched costs no memory, only address space.
STACK_SIZE = 256 * 1024
_EXHAUSTED_PAUSE = 0.1
# Once so many connections were open at the same time, their memory is given back whenever half of them have gone.
CROWD = 16
_TRIM_PAUSE = 1.0  # seconds, but for the last of them

_Request = socket.socket | tuple[bytes, socket.socket]
"""What `socketserver` calls a request: of a stream its connection, of datagrams, which are not here, one of them."""


class _Door(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """The server of one listener. The descriptor it is polled by is an epoll of the listener and of the wake-up."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: Listener, acceptor: "Acceptor"):
        # No handler class: `process_request_thread` is the one that would make an instance of it.
        super().__init__(listener.address, socketserver.BaseRequestHandler)
        self._listener = listener
        self._acceptor = acceptor
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._either = select.epoll()
        self._either.register(listener.fileno(), select.EPOLLIN)
        self._either.register(self._wake, select.EPOLLIN)

    def fileno(self) -> int:
        return self._either.fileno()

    def get_request(self) -> tuple[socket.socket, str]:
        try:
            return self._listener.accept(), self._listener.address
        except BlockingIOError:
            raise  # it was the wake-up, or the client has left again; `socketserver` passes over it
        except OSError as error:
            # Out of descriptors or memory: the connections that end give some back.
            log.error("cannot accept on %s: %s", self._listener.address, error)
            time.sleep(_EXHAUSTED_PAUSE)
            raise

    def process_request_thread(self, request: _Request, client_address: object) -> None:
        assert isinstance(request, socket.socket)  # see `get_request`
        self._acceptor.serve(request)

    def handle_error(self, request: _Request, client_address: object) -> None:
        # No thread to be had: this client is turned away, the daemon goes on.
        log.exception("cannot serve a connection on %s", client_address)

    def stop(self) -> None:
        """Accept no more; returns when the loop has ended."""
        os.eventfd_write(self._wake, 1)
        self.shutdown()
        self._listener.close()
        self._either.close()
        os.close(self._wake)


class Acceptor:
    """Serves `application` on the listeners, which are its own from here on."""

    def __init__(self, listeners: Iterable[Listener], application: Application):
        self._application = application
        self._doors = [_Door(listener, self) for listener in listeners]
        self._connections: dict[Connection, tuple[socket.socket, threading.Thread]] = {}
        self._trim_at = 0  # when so few connections are left, after a crowd
        self._trimmed = 0.0
        self._lock = locks.Lock("connections")
        self._closing = threading.Event()

    def start(self) -> None:
        """Begin to accept; returns at once."""
        threading.stack_size(STACK_SIZE)
        for door in self._doors:
            name = f"accept {door.server_address}"
            threading.Thread(target=door.serve_forever, args=(None,), name=name, daemon=True).start()
            log.info("API listen on %s", door.server_address)

    def stop(self, seconds: float = 5.0) -> None:
        """Accept no more, let the answers under way end for at most `seconds`, then hang up; on some at once."""
        self._closing.set()
        while self._doors:
            self._doors.pop().stop()
        until = time.monotonic() + seconds
        for how, when in ((socket.SHUT_RD, until), (socket.SHUT_RDWR, until + 1)):
            with self._lock:
                # Whom another process is going to answer hears nothing of this daemon's end.
                remaining = [each for each in self._connections.items() if not (each[0].parked and each[0].held())]
            for connection, (peer, _) in remaining:
                if connection.parked:
                    _shut(peer, socket.SHUT_RDWR)  # to wait for its end would be in vain
                elif how == socket.SHUT_RDWR or connection.idle:
                    _shut(peer, how)
            for _, (_, thread) in remaining:
                thread.join(max(0.0, when - time.monotonic()))

    def serve(self, peer: socket.socket) -> None:
        """Answer one client until its connection ends; in the connection's own thread."""
        connection = Connection(peer, self._application, self._closing.is_set)
        with self._lock:
            self._connections[connection] = (peer, threading.current_thread())
            if len(self._connections) >= CROWD:
                self._trim_at = max(self._trim_at, len(self._connections) // 2)
        owned = True
        try:
            owned = connection.serve()
        finally:
            with self._lock:
                del self._connections[connection]
                trims = self._trims()
            if owned:
                peer.close()
            if trims:
                memory.trim()

    def _trims(self) -> bool:
        """Whether a crowd has become so much smaller that its memory is to be given back; under the lock."""
        left, now = len(self._connections), time.monotonic()
        if left > self._trim_at or not self._trim_at or (left > 1 and now - self._trimmed < _TRIM_PAUSE):
            return False
        self._trim_at, self._trimmed = left // 2, now
        return True


def _shut(peer: socket.socket, how: int) -> None:
    try:
        peer.shutdown(how)
    except OSError as error:
        # ENOTCONN, EBADF: it ended by itself in the meantime, which is what was wanted.
        log.debug("connection was closed already: %s", error)

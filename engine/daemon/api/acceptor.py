"""Accepts connections on every listening socket of the API server and runs a thread for each connection.

Each listener is a server of `socketserver`'s family (`_Door`), with a thread that accepts. `http.server` is left out:
it would take 3.9 MB of an idle daemon, for `email` and `http.client` that come with it.
"""

import logging
import os
import select
import socket
import socketserver
import threading
import time
from collections.abc import Iterable

from engine.annotating import Any
from engine.daemon import locks
from engine.daemon.api.connection import Application, Connection, taking
from engine.daemon.api.listeners import Listener
from engine.daemon.api.parking import Parking
from engine.kernel import memory

log = logging.getLogger(__name__)

_EXHAUSTED_PAUSE = 0.1
_LOOK_SECONDS = 0.005
# Once this many connections were open at the same time, the daemon gives their memory back to the kernel whenever half
# of them have ended.
CROWD = 16
_TRIM_PAUSE = 1.0  # seconds between two trims at least; the end of the last connections is trimmed at once


class _Handler(socketserver.BaseRequestHandler):
    """Serves one connection, in its own thread."""

    server: "_Door"

    def handle(self) -> None:
        """Answer the client until its connection ends, sleeps, or is given away."""
        self.server.acceptor.serve(self.request)


class _Door(socketserver.ThreadingMixIn, socketserver.BaseServer):
    """One listener, the thread that accepts on it, and a thread for each connection.

    `serve_forever` waits for its `fileno`, here an epoll(7) descriptor that is readable when a client connects and when
    the loop is to end: the usual loop looks twice a second whether it is to end, and an idle daemon is to stay asleep.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: Listener, acceptor: "Acceptor"):
        super().__init__(listener.address, _Handler)
        self._listener = listener
        self.acceptor = acceptor
        self.address, self.path = listener.address, listener.path
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._either = select.epoll()
        self._either.register(listener.fileno(), select.EPOLLIN)
        self._either.register(self._wake, select.EPOLLIN)
        self._opened = False

    def fileno(self) -> int:
        """The descriptor that `serve_forever` waits for."""
        return self._either.fileno()

    def open(self) -> None:
        """Accept connections in a thread of its own; returns at once."""
        self._opened = True
        name = f"accept {self.address}"
        threading.Thread(target=self.serve_forever, args=(None,), name=name, daemon=True).start()

    def hold(self) -> None:
        """Accept no more for now; returns when the loop has ended. Who connects waits in the kernel's queue."""
        os.eventfd_write(self._wake, 1)
        if self._opened:  # `shutdown` would wait for ever for the end of what has not begun
            self.shutdown()

    def reopen(self) -> None:
        """Undo `hold`."""
        os.eventfd_read(self._wake)
        self.open()

    def stop(self) -> None:
        """Accept no more connections; returns when the loop has ended."""
        self.hold()
        self._either.close()
        self._listener.close()
        os.close(self._wake)

    def get_request(self) -> tuple[socket.socket, str]:
        """The next connection; who is at its other end is nobody's concern. Raises OSError where there is none."""
        try:
            peer = self._listener.accept()
        except BlockingIOError:
            raise  # the client has left again
        except OSError as error:
            # The process is out of descriptors or memory. Connections that end give some back, so the loop waits a
            # moment.
            log.error("cannot accept on %s: %s", self.address, error)
            time.sleep(_EXHAUSTED_PAUSE)
            raise
        self.acceptor.meet()
        return peer, self.address

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection. It is not closed here: whoever has it at the end does that."""
        self.finish_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """No thread could be started: this client is turned away, and the daemon goes on."""
        log.exception("cannot serve a connection on %s", self.address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection for which there was no thread."""
        request.close()


class Acceptor:
    """Serves `application` on the listeners. It owns the listeners from here on."""

    def __init__(self, listeners: Iterable[Listener], application: Application):
        self._application = application
        self._doors = [_Door(listener, self) for listener in listeners]
        # A connection that sleeps has no thread.
        self._connections: dict[Connection, tuple[socket.socket, threading.Thread | None]] = {}
        self._parking = Parking(self._go_on, self._drop)
        self._trim_at = 0  # the number of open connections at which the next trim is due after a crowd; 0: none
        self._trimmed = 0.0
        self._lock = locks.Lock("connections")
        self._closing = threading.Event()
        self._met = time.monotonic()

    def start(self) -> None:
        """Begin to accept connections, in one thread a listener; returns at once."""
        for door in self._doors:
            door.open()
            log.info("API listen on %s", door.address)

    def stop(self, seconds: float = 5.0) -> None:
        """Accept no more, let the answers under way end for at most `seconds`, then shut their connections.

        Idle connections and parked ones (`Connection.parked`) are shut at once.
        """
        self._closing.set()
        while self._doors:
            self._doors.pop().stop()
        until = time.monotonic() + seconds
        for how, when in ((socket.SHUT_RD, until), (socket.SHUT_RDWR, until + 1)):
            with self._lock:
                # A client that another process is going to answer is not to notice that this daemon ends.
                remaining = [each for each in self._connections.items() if not (each[0].parked and each[0].held())]
            for connection, (peer, _) in remaining:
                if connection.parked:
                    _shut(peer, socket.SHUT_RDWR)  # its answer may never come, so there is no use in waiting for it
                elif how == socket.SHUT_RDWR or connection.idle:
                    _shut(peer, how)
            for connection, (_, thread) in remaining:
                self._await_end(connection, thread, when)

    @property
    def paths(self) -> list[str]:
        """The files of the Unix sockets on which it listens."""
        return [door.path for door in self._doors if door.path]

    def meet(self) -> None:
        """Note that a client has connected just now; the loops that accept call it."""
        self._met = time.monotonic()

    @property
    def met(self) -> float:
        """When the last client connected, of the monotonic clock in seconds."""
        return self._met

    def hold(self) -> None:
        """Accept no connection until `reopen`. Who connects meanwhile waits in the kernel's queue."""
        for door in self._doors:
            door.hold()

    def reopen(self) -> None:
        """Undo `hold`."""
        for door in self._doors:
            door.reopen()

    def part(self, seconds: float) -> bool:
        """End the connections, which wait for a request of their clients; False if one of the clients has sent any.

        seconds: how long a connection may take to end. Call it after `hold`, when no request is being answered. Nothing
        that a client sends afterwards is taken: its send fails, so it knows that it has to connect anew. No request is
        cut off whose head was taken: of what comes at this very moment only a whole request is.
        """
        poll = select.poll()
        with self._lock, taking:  # a connection is closed after it was taken off the list under this lock
            left = list(self._connections.items())
            for _, (peer, _) in left:
                poll.register(peer, select.POLLIN)
            if any(told & select.POLLIN and not told & select.POLLHUP for _, told in poll.poll(0)):
                return False
            if any(connection.asked for connection, _ in left):
                return False
            for connection, (peer, _) in left:
                connection.parted = True
                _shut(peer, socket.SHUT_RD)
        until = time.monotonic() + seconds
        for connection, (_, thread) in left:
            self._await_end(connection, thread, until)
        with self._lock:
            return not self._connections

    def _await_end(self, connection: Connection, thread: threading.Thread | None, until: float) -> None:
        """Wait for the end of a connection, or until this moment of the monotonic clock."""
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))
            return
        while connection in self._connections and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def serve(self, peer: socket.socket) -> None:
        """Answer one client until its connection ends or sleeps; runs in the connection's own thread."""
        connection = Connection(peer, self._application, self._closing.is_set)
        with self._lock:
            self._connections[connection] = (peer, threading.current_thread())
            if len(self._connections) >= CROWD:
                self._trim_at = max(self._trim_at, len(self._connections) // 2)
        self._go_on(connection)

    def _go_on(self, connection: Connection) -> None:
        """Serve a connection, whose answer may have waited before, in the calling thread."""
        with self._lock:
            peer, _ = self._connections[connection]
            self._connections[connection] = (peer, threading.current_thread())
        owned = True
        try:
            owned = connection.serve()
        finally:
            if connection.sleeps:
                with self._lock:
                    self._connections[connection] = (peer, None)
                self._parking.park(connection)
            else:
                self._drop(connection, owned)

    def _drop(self, connection: Connection, owned: bool = True) -> None:
        """Forget a connection that has ended. owned: its socket is to be closed"""
        with self._lock:
            peer, _ = self._connections.pop(connection)
            trims = self._trims()
        if owned:
            peer.close()
        if trims:
            memory.trim()

    def _trims(self) -> bool:
        """Whether so many connections of a crowd have ended that memory is to be given back now; call it under the
        lock.
        """
        left, now = len(self._connections), time.monotonic()
        if left > self._trim_at or not self._trim_at or (left > 1 and now - self._trimmed < _TRIM_PAUSE):
            return False
        self._trim_at, self._trimmed = left // 2, now
        return True


def _shut(peer: socket.socket, how: int) -> None:
    try:
        peer.shutdown(how)
    except OSError as error:
        # ENOTCONN, EBADF: the connection ended by itself in the meantime, which is what was wanted.
        log.debug("connection was closed already: %s", error)

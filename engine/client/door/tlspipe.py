"""Speaks TLS to a daemon, behind a plain pair of sockets: whoever has the near end polls and half-closes it as any
other.

A thread of its own relays each connection, for as long as that lives. The end of the near end's sending is told to the
daemon by TLS's close_notify, and the daemon's answer is still read.
"""

import select
import socket
import ssl
import threading

from engine.client.door.destination import Certificates
from engine.errors import Unavailable

_PIECE = 64 * 1024


def wrapped(plain: socket.socket, host: str, files: Certificates) -> socket.socket:
    """The near end of a relay over `plain`, which it owns from now on.

    host: the name that the daemon's certificate must have
    Raises Unavailable when a file cannot be used, or when the daemon's certificate is refused.
    """
    try:
        outer = _Tls(_context(files), plain, host)
    except OSError as error:  # ssl.SSLError is an OSError too
        plain.close()
        names = ", ".join(name for name in (files.ca, files.certificate, files.key) if name)
        raise Unavailable(f"no TLS with {host} ({names or 'no certificates'}): {error}") from error
    near, far = socket.socketpair()
    threading.Thread(target=_serve, args=(plain, outer, far), name="tls", daemon=True).start()
    return near


def _context(files: Certificates) -> ssl.SSLContext:
    """Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if files.verify:
        context.load_verify_locations(files.ca or None) if files.ca else context.load_default_certs()
    else:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.certificate and files.key:
        context.load_cert_chain(files.certificate, files.key)
    return context


def _serve(plain: socket.socket, outer: "_Tls", inner: socket.socket) -> None:
    with plain, inner:
        try:
            _Relay(plain, outer, inner).run()
        except OSError:  # the daemon has reset the connection: the near end sees it close
            return


class _Tls:
    """TLS between two buffers. `ssl.SSLSocket` cannot end its sending while the other side still sends."""

    def __init__(self, context: ssl.SSLContext, plain: socket.socket, host: str) -> None:
        """Shake hands over a socket that blocks. Raises OSError."""
        self.arrived, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self.arrived, self.leaving, server_hostname=host)
        while True:
            try:
                self._object.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(self.leaving.read())
                self.arrive(plain.recv(_PIECE))
        plain.sendall(self.leaving.read())

    def arrive(self, data: bytes) -> None:
        """Take what the daemon has sent; nothing is its end."""
        if data:
            self.arrived.write(data)
        else:
            self.arrived.write_eof()

    def read(self) -> bytes | None:
        """A piece of what has arrived; None while there is no whole one, empty at the end."""
        try:
            return self._object.read(_PIECE)
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def write(self, data: bytes) -> None:
        """Have a piece ready to leave."""
        self._object.write(data)

    def say_goodbye(self) -> None:
        """Have close_notify ready to leave. To be called while `read` gives None: OpenSSL looks for the other side's
        close_notify at once, and takes anything else that has arrived for an error.
        """
        try:
            self._object.unwrap()
        except ssl.SSLWantReadError:
            return


class _Relay:
    """Moves bytes both ways until the daemon has ended its sending; holds at most one piece in each direction."""

    def __init__(self, plain: socket.socket, outer: _Tls, inner: socket.socket) -> None:
        self._plain, self._outer, self._inner = plain, outer, inner
        self._plain.setblocking(False)
        self._inner.setblocking(False)
        self._inward = self._outward = b""
        self._inner_ended = self._said_goodbye = self._outer_ended = False

    def run(self) -> None:
        """Until the daemon has sent all, or the near end is closed. Raises OSError for a broken connection."""
        while not self._outer_ended or self._inward:
            # Both directions are tried at every turn: TLS may hold bytes that poll does not see.
            moved = self._move_inward()
            moved = self._move_outward() or moved
            if not moved and not self._wait():
                return

    def _move_inward(self) -> bool:
        if self._inward:
            try:
                self._inward = self._inward[self._inner.send(self._inward, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                return False
            return True
        piece = self._outer.read()
        if piece is not None:
            self._inward, self._outer_ended = piece, not piece
            return True
        if self._inner_ended and not self._said_goodbye:
            self._said_goodbye = True
            self._outer.say_goodbye()
            return True
        try:
            self._outer.arrive(self._plain.recv(_PIECE))
        except BlockingIOError:
            return False
        return True

    def _move_outward(self) -> bool:
        if not self._outward:
            self._outward = self._outer.leaving.read()
        if self._outward:
            try:
                self._outward = self._outward[self._plain.send(self._outward, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                return False
            return True
        if self._inner_ended:
            return False
        try:
            data = self._inner.recv(_PIECE)
        except BlockingIOError:
            return False
        self._inner_ended = not data
        if data:
            self._outer.write(data)
        return True

    def _wait(self) -> bool:
        """Sleep until bytes can be moved; False when the near end has been closed."""
        poll = select.poll()
        poll.register(self._plain, (0 if self._inward else select.POLLIN) | (select.POLLOUT if self._outward else 0))
        inner = 0 if self._outward or self._inner_ended else select.POLLIN
        poll.register(self._inner, inner | (select.POLLOUT if self._inward else 0))
        return not any(fd == self._inner.fileno() and event & select.POLLHUP for fd, event in poll.poll())

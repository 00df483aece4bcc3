"""Terminates TLS: relays each TLS connection to a plain socket pair, so that the rest of the server handles one kind of
connection.

Imported only by a daemon that listens on TCP. Each connection has a relay thread beside the thread that serves it. The
handlers write to plain descriptors and hand them to other processes, which is impossible with a TLS socket.
"""

import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable

from engine.errors import Invalid
from engine.kernel import reasons

log = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 10.0
# The first that the client has, too. Only clients of gRPC want HTTP/2 alone, and it is served to them alone.
_PROTOCOLS = ["http/1.1", "h2"]
_PIECE = 64 * 1024
_NO_TLS = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
_PARTING_SECONDS, _PARTING_PIECES = 1.0, 16
_WAITS = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)


def wrapper(ca_file: str, certificate: str, key: str) -> Callable[[socket.socket], socket.socket]:
    """A function that turns an accepted TCP socket into the plain end of a relay. Clients must show a certificate of
    that CA; with an empty `ca_file` any client may come.

    Raises Invalid when one of the files cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(_PROTOCOLS)
    try:
        context.load_cert_chain(certificate, key)
        if ca_file:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(ca_file)
    except OSError as error:  # ssl.SSLError is an OSError too
        files = ", ".join(filter(None, (certificate, key, ca_file)))
        raise Invalid(f"cannot use {files} for TLS: {reasons.whole(error)}") from error

    def wrap(peer: socket.socket) -> socket.socket:
        pair, far = socket.socketpair()
        near = Near(fileno=pair.detach())
        threading.Thread(target=_serve, args=(context, peer, far, near), name="tls", daemon=True).start()
        return near

    return wrap


class Near(socket.socket):
    """The plain end of a relay. shown_by: (common name, certificate in PEM) of the client; empty without a certificate.

    It is set before the first byte of the client comes.
    """

    shown_by = ("", "")


def _serve(context: ssl.SSLContext, peer: socket.socket, inner: socket.socket, near: Near) -> None:
    with inner, peer:
        try:
            peer.settimeout(_HANDSHAKE_SECONDS)
            with context.wrap_socket(peer, server_side=True, do_handshake_on_connect=False) as outer:
                try:
                    outer.do_handshake()
                except ssl.SSLError as error:
                    if error.reason == "HTTP_REQUEST":
                        _turn_away(outer)
                    raise
                near.shown_by = _shown_by(outer)
                _Relay(outer, inner).run()
        except OSError as error:
            # A port scan, a client without a certificate, or a client that hung up: no fault of the daemon's.
            log.info("TLS connection ended: %s", error)


def _turn_away(outer: ssl.SSLSocket) -> None:
    """Tell a client that speaks plain HTTP what is amiss, in the words of Go's server. Raises OSError.

    What it has sent is read for a moment: a socket that is closed with bytes unread takes the answer back.
    """
    outer.settimeout(_PARTING_SECONDS)
    socket.socket.sendall(outer, _NO_TLS)
    socket.socket.shutdown(outer, socket.SHUT_WR)
    for _ in range(_PARTING_PIECES):
        if not socket.socket.recv(outer, _PIECE):
            return


def _shown_by(outer: ssl.SSLSocket) -> tuple[str, str]:
    certificate, told = outer.getpeercert(binary_form=True), outer.getpeercert()
    if not certificate:
        return "", ""
    names = (told or {}).get("subject", ())  # ((("commonName", "who"),), ...), see ssl.SSLSocket.getpeercert
    found = [each[1] for part in names for each in part if each[0] == "commonName"]
    return str(found[0]) if found else "", ssl.DER_cert_to_PEM_cert(certificate)


class _Relay:
    """Moves bytes both ways until the inner side ends or the client has gone; holds at most one piece in each
    direction.

    A client's close_notify is passed on as a half-close; the FIN that ends its connection is passed on as a close.
    """

    def __init__(self, outer: ssl.SSLSocket, inner: socket.socket):
        self._outer = outer
        self._inner = inner
        self._inward = b""
        self._outward = b""
        self._outer_open = True
        self._inner_open = True

    def run(self) -> None:
        self._outer.setblocking(False)
        self._inner.setblocking(False)
        while self._inner_open or self._outward:
            # Both directions are tried at every turn: TLS may hold bytes that poll does not see.
            moved = self._move_inward()
            moved = self._move_outward() or moved
            if not moved and not self._wait():
                return
        try:
            self._outer.unwrap()
        except _WAITS:
            pass  # close_notify is sent; the relay does not wait for the client's own

    def _move_inward(self) -> bool:
        if not self._inward and self._outer_open:
            try:
                self._inward = self._outer.recv(_PIECE)
            except _WAITS:
                return False
            if not self._inward:
                self._outer_open = False
                self._inner.shutdown(socket.SHUT_WR)
                return True
        if not self._inward:
            return False
        try:
            sent = self._inner.send(self._inward)
        except BlockingIOError:
            return False
        self._inward = self._inward[sent:]
        return True

    def _move_outward(self) -> bool:
        if not self._outward and self._inner_open:
            try:
                self._outward = self._inner.recv(_PIECE)
            except BlockingIOError:
                return False
            if not self._outward:
                self._inner_open = False
                return True
        if not self._outward:
            return False
        try:
            sent = self._outer.send(self._outward)
        except _WAITS:
            return False
        self._outward = self._outward[sent:]
        return True

    def _wait(self) -> bool:
        """Sleep until bytes can be moved; False when the client has gone."""
        poll = select.poll()
        outer = select.POLLRDHUP if not self._outer_open else 0
        if self._outer_open and not self._inward:
            outer |= select.POLLIN
        if self._outward:
            outer |= select.POLLOUT
        inner = (select.POLLIN if not self._outward else 0) | (select.POLLOUT if self._inward else 0)
        poll.register(self._outer, outer)
        poll.register(self._inner, inner)
        gone = select.POLLHUP | select.POLLERR | (0 if self._outer_open else select.POLLRDHUP)
        return not any(fd == self._outer.fileno() and event & gone for fd, event in poll.poll())

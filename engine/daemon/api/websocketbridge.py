"""Relays bytes between a client's WebSocket and a plain socket pair, whose other end the container's monitor serves as
an attached client.

A thread of its own runs each relay and owns both sockets. The relay keeps at most one piece in each direction: a side
that does not read makes the other side wait, and no bytes are lost. It is imported only when a client asks for a
WebSocket.
"""

import contextlib
import select
import socket
import time

from engine.protocols.websocket import Closed, Machine

_PIECE = 64 * 1024
_CLOSE_SECONDS = 2.0
_LINGER_SECONDS = 1.0
"""_CLOSE_SECONDS: how long to wait for the other side once one side has closed; _LINGER_SECONDS: how long to wait for
the client to hang up after the last frame.
"""
_LINGER_PIECES = 64
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


def run(peer: socket.socket, inner: socket.socket, machine: Machine) -> None:
    """Move bytes until either side ends; closes both."""
    with peer, inner, contextlib.suppress(ConnectionError):
        peer.setblocking(False)
        inner.setblocking(False)
        if _Bridge(peer, inner, machine).run():
            _linger(peer)


def _linger(peer: socket.socket) -> None:
    """Let the client read the last frame before the close: bytes that it still sends would turn the
    close into a reset.
    """
    peer.shutdown(socket.SHUT_WR)
    peer.settimeout(_LINGER_SECONDS)
    with contextlib.suppress(TimeoutError):
        for _ in range(_LINGER_PIECES):
            if not peer.recv(_PIECE):
                return


class _Bridge:
    def __init__(self, peer: socket.socket, inner: socket.socket, machine: Machine) -> None:
        self._peer = peer
        self._inner = inner
        self._machine = machine
        self._input = bytearray()  # bytes from the client, for the container
        self._ended = False  # whether the container's side has ended
        self._until = 0.0  # when to stop waiting, of the monotonic clock; 0: never

    def run(self) -> bool:
        """Move bytes until either side ends; False when the client hung up without a close frame."""
        machine = self._machine
        while not machine.closed or machine.out or (self._input and not self._ended):
            ready = self._wait()
            if ready is None:
                break
            if self._turn(*ready):
                return False
        return True

    def _wait(self) -> tuple[int, int] | None:
        """The events of poll(2) for the client's socket and for the container's; None when the time
        limit has passed.
        """
        machine = self._machine
        poll = select.poll()
        wanted = select.POLLOUT if machine.out else 0
        if not self._input and not machine.closed and len(machine.out) < _PIECE:
            wanted |= select.POLLIN
        else:
            wanted |= select.POLLRDHUP  # the socket is not read now, so only this event tells its end
        poll.register(self._peer, wanted)
        if not self._ended:
            wanted = select.POLLOUT if self._input else 0
            wanted |= select.POLLIN if not machine.out and not machine.closing else 0
            poll.register(self._inner, wanted)
        if (machine.closing or machine.closed) and not self._until:
            self._until = time.monotonic() + _CLOSE_SECONDS
        left = max(self._until - time.monotonic(), 0) * 1000 if self._until else None
        ready = dict(poll.poll(left))
        if not ready:
            return None
        return ready.get(self._peer.fileno(), 0), ready.get(self._inner.fileno(), 0)

    def _turn(self, peer: int, inner: int) -> bool:
        """Move what can be moved; True when the client has hung up."""
        if peer & select.POLLIN:
            data = self._peer.recv(_PIECE)
            if not data:
                return True
            for event in self._machine.receive(data):
                if not isinstance(event, Closed) and not self._ended:
                    self._input += event.payload
        elif peer & (_GONE | select.POLLRDHUP) and not self._machine.closed:
            return True
        elif peer & _GONE:
            self._machine.out.clear()
        if inner & (select.POLLIN | _GONE) and not self._machine.closing:
            data = self._inner.recv(_PIECE)
            if data:
                self._machine.send(data)
            else:
                self._end()
        elif inner & _GONE:
            self._end()
        if self._input and not self._ended:
            self._push(self._inner, self._input)
        if self._machine.out:
            self._push(self._peer, self._machine.out)
        return False

    def _end(self) -> None:
        """Note that the container has ended or has detached the client, and send the close frame."""
        self._ended = True
        self._input.clear()
        self._machine.close()

    @staticmethod
    def _push(to: socket.socket, data: bytearray) -> None:
        with contextlib.suppress(BlockingIOError):
            del data[: to.send(data)]

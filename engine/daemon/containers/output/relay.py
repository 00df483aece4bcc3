"""Relay bytes between two connected sockets, both ways, until the inner one has ended or the client is gone.

Runs in the thread of a request that keeps its client's socket itself. Only `attach` needs it, for a client that still
reads the log while its container is started.
"""

import contextlib
import select
import socket

_PIECE = 64 * 1024
_GONE = select.POLLHUP | select.POLLERR


class _Way:
    """One direction: at most one piece (64 KiB) in transit, and the source's end passed on after the last piece."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.ended = False
        self._pending = b""

    def interests(self) -> list[tuple[int, int]]:
        """The socket to wait for now, and the poll events to wait for."""
        if self._pending:
            return [(self.sink.fileno(), select.POLLOUT)]
        return [] if self.ended else [(self.source.fileno(), select.POLLIN)]

    def move(self) -> bool:
        """Move what can be moved without waiting; True when there was something."""
        moved = False
        with contextlib.suppress(BlockingIOError):
            while self._pending or not self.ended:
                if not self._pending:
                    self._pending = self.source.recv(_PIECE)
                    moved = True
                    if not self._pending:
                        self.ended = True
                        self.sink.shutdown(socket.SHUT_WR)
                while self._pending:
                    self._pending = self._pending[self.sink.send(self._pending) :]
                    moved = True
        return moved


def relay(client: socket.socket, inner: socket.socket) -> None:
    """Serve the client from `inner`, until `inner` has ended and all of it is delivered, or the client is gone.

    Closes the client's socket; `inner` stays with its owner.
    """
    with client, contextlib.suppress(ConnectionError):
        client.setblocking(False)
        inner.setblocking(False)
        inward, outward = _Way(client, inner), _Way(inner, client)
        while not outward.ended or outward.interests():
            wanted = dict.fromkeys((client.fileno(), inner.fileno()), 0)
            for descriptor, events in (*inward.interests(), *outward.interests()):
                wanted[descriptor] |= events
            poll = select.poll()
            for descriptor, events in wanted.items():
                if events or descriptor == client.fileno():  # its hang-up is noticed even when no event is wanted
                    poll.register(descriptor, events)
            told = dict(poll.poll())
            moved = inward.move() | outward.move()
            if told.get(client.fileno(), 0) & _GONE and not moved:
                return

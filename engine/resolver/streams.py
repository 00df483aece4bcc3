"""One TCP connection of a container's program to the resolver: one DNS query after the other, each after its length.

One thread. One query is handled at a time: the next is read when the last is answered and the answer is sent, so that a
connection keeps at most one message each way. The owner closes idle connections (see `served`).
"""

import socket
import time
from collections.abc import Callable

from engine.resolver import packets
from engine.resolver.loop import READABLE, WRITABLE, Loop

_SIZE = 2
_SHORTEST = _SIZE + packets.HEADER
_CHUNK = 16384
_AT_ONCE = 32  # queries, before other descriptors have their turn


class Stream:
    """A connection.

    ask: called with this object and a whole message; it must have `reply` called, at once or later
    closed: called when the connection was closed
    """

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        ask: Callable[["Stream", bytes], None],
        closed: Callable[["Stream"], None],
    ) -> None:
        self._loop, self._connection, self._ask, self._closed = loop, connection, ask, closed
        self._came = bytearray()  # a bytearray, since it may come a byte at a time
        self._unsent = b""
        self._asks = self._asking = False
        self.used = time.monotonic()
        """When it last received or sent something (time.monotonic)."""
        loop.add(connection.fileno(), self._heard)

    @property
    def open(self) -> bool:
        """Whether the connection is still open."""
        return self._connection.fileno() >= 0

    def close(self) -> None:
        """Close the connection."""
        if self.open:
            self._loop.drop(self._connection.fileno())
            self._connection.close()
            self._closed(self)

    def reply(self, answer: bytes) -> None:
        """Send the answer to the pending query; an empty answer closes the connection."""
        self._asks = False
        if not answer:
            self.close()
        elif self.open:
            self._unsent = len(answer).to_bytes(_SIZE, "big") + answer
            if not self._asking:
                self._work()

    def _heard(self, _: int) -> None:
        if self._asks:
            self.close()  # while a query is pending, only the end of the connection is waited for
            return
        if not self._unsent and not self._message():
            try:
                came = self._connection.recv(_CHUNK)
            except BlockingIOError:
                return
            except OSError:  # it was reset
                came = b""
            if not came:
                self.close()
                return
            self._came += came
            self.used = time.monotonic()
        self._work()

    def _message(self) -> int:
        """The size of the next message and its length field, if it has arrived whole; else 0."""
        size = _SIZE + int.from_bytes(self._came[:_SIZE], "big")
        return size if _SHORTEST <= size <= len(self._came) else 0

    def _work(self) -> None:
        """Send answers and ask queries, in turn, as long as there is anything to send or ask."""
        for _ in range(_AT_ONCE):
            if self._unsent and not self._send():
                return
            size = self._message()
            if not size:
                self._loop.change(self._connection.fileno(), READABLE)
                return
            message = bytes(self._came[_SIZE:size])
            del self._came[:size]
            self._asks = self._asking = True
            self._ask(self, message)
            self._asking = False
            if not self.open:
                return
            if self._asks:
                self._loop.change(self._connection.fileno(), 0)
                return
        self._loop.change(self._connection.fileno(), WRITABLE)

    def _send(self) -> bool:
        """Send what is unsent; returns whether all of it was sent."""
        try:
            sent = self._connection.send(self._unsent, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:  # it was reset
            self.close()
            return False
        self.used = time.monotonic()
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._loop.change(self._connection.fileno(), WRITABLE)
        return not self._unsent

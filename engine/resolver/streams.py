"""One connection of a container's program to its resolver: queries one behind the other, each behind its length.

One thread. One query at a time: the next is read when the last is answered and the answer is sent, so that what a
connection may keep is one message each way. Idle ones are closed by who owns them (see `served`).
"""

import socket
import time
from collections.abc import Callable

from engine.resolver import packets
from engine.resolver.loop import READABLE, WRITABLE, Loop

_SIZE = 2
_SHORTEST = _SIZE + packets.HEADER
_CHUNK = 16384
_AT_ONCE = 32  # queries, before others have their turn


class Stream:
    """A connection.

    ask: called with this and a whole message; it has `reply` called, at once or later
    closed: called when the connection is no more
    """

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        ask: Callable[["Stream", bytes], None],
        closed: Callable[["Stream"], None],
    ) -> None:
        self._loop, self._connection, self._ask, self._closed = loop, connection, ask, closed
        self._came = bytearray()  # a byte at a time, perhaps
        self._unsent = b""
        self._asks = self._asking = False
        self.used = time.monotonic()
        """When it was last good for anything."""
        loop.add(connection.fileno(), self._heard)

    @property
    def open(self) -> bool:
        """It is still there."""
        return self._connection.fileno() >= 0

    def close(self) -> None:
        """End it."""
        if self.open:
            self._loop.drop(self._connection.fileno())
            self._connection.close()
            self._closed(self)

    def reply(self, answer: bytes) -> None:
        """Send the answer to what was asked; an empty one ends the connection."""
        self._asks = False
        if not answer:
            self.close()
        elif self.open:
            self._unsent = len(answer).to_bytes(_SIZE, "big") + answer
            if not self._asking:
                self._work()

    def _heard(self, _: int) -> None:
        if self._asks:
            self.close()  # nothing but its end is waited for now
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
        """How long the next message is with its length, if it is there whole; else 0."""
        size = _SIZE + int.from_bytes(self._came[:_SIZE], "big")
        return size if _SHORTEST <= size <= len(self._came) else 0

    def _work(self) -> None:
        """Send and ask, one after the other, as long as there is anything to be sent or asked."""
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
        """Send what is unsent; whether all of it is."""
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

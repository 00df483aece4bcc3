"""Forwards DNS queries that no network of a container can answer to the servers of its host (or of --dns).

One thread. Each attempt has a connected socket of its own, with a port and a query number that nobody can guess, so
that no other host's datagram is taken for an answer. The host's servers are asked from the host's network, others from
the container's network. A server that does not answer is asked once more after the others, and the first answer is
accepted. A query that came by TCP is forwarded by TCP. Everything is bounded: how many queries wait, for one container
and in all, and how long. When the limit of all is reached, each container has the same share of it.
"""

import collections
import contextlib
import os
import socket
import time
from collections.abc import Callable, Hashable

from engine.kernel import netns
from engine.resolver import packets
from engine.resolver.loop import READABLE, WRITABLE, Loop
from engine.resolver.packets import Query
from engine.resolver.servers import Address

TRY_SECONDS = 2.0
"""How long a server may be silent before the next one is asked too."""
ALL_SECONDS = 8.0
"""The time after which a query is given up."""
MOST_WAITING = 2048
MOST_OF_ONE = 256
_MOST_ATTEMPTS = 2  # attempts of one query whose answers are awaited at the same time
_SWEEP_SECONDS = 0.25
_ROUNDS = 2
_UNHELPFUL = (packets.FAILED, packets.REFUSED, packets.NOT_DONE, packets.FORMAT_ERROR)
_SIZE = 2  # bytes of the length before each message on a stream

_Reply = Callable[[bytes], None]
"""Takes the answer to a query."""


class Asker:
    """The state of one container in the forwarding.

    network: a descriptor of its network namespace; servers: the servers to ask from there, empty: the host's servers,
        from the host's network
    asked: its queries that wait for an answer
    """

    __slots__ = ("asked", "network", "servers")

    def __init__(self, network: int) -> None:
        self.network = network
        self.servers: tuple[Address, ...] = ()
        self.asked: dict[Hashable, _Asked] = {}


class _Asked:
    """One query that waits for an answer of a server."""

    __slots__ = ("asker", "data", "ends", "key", "last", "next", "open", "query", "queue", "reply", "rounds", "stream")

    def __init__(self, asker: Asker, key: Hashable, query: Query, data: bytes, stream: bool, reply: _Reply) -> None:
        self.asker, self.key, self.query, self.data, self.stream, self.reply = asker, key, query, data, stream, reply
        self.queue: collections.deque[Address] = collections.deque()
        self.rounds: collections.Counter[Address] = collections.Counter()
        self.open: list[_Attempt] = []
        self.last = b""
        self.next = 0.0
        self.ends = time.monotonic() + ALL_SECONDS


class _Attempt:
    """One server that was asked: the socket, what was (or is still to be) sent, and what a stream has received."""

    __slots__ = ("asked", "came", "message", "server", "socket", "unsent")

    def __init__(self, asked: _Asked, server: Address, sock: socket.socket, message: bytes) -> None:
        self.asked, self.server, self.socket, self.message = asked, server, sock, message
        self.unsent = len(message).to_bytes(_SIZE, "big") + message if asked.stream else b""
        self.came = bytearray()  # a bytearray, since it may come a byte at a time


class Forwarder:
    """All queries that are forwarded. host_servers: returns the servers that the host asks; most: how many queries may
    wait.
    """

    def __init__(self, loop: Loop, host_servers: Callable[[], tuple[Address, ...]], most: int = MOST_WAITING) -> None:
        self._loop = loop
        self._most = most
        self._host_servers = host_servers
        self._waiting: dict[_Asked, None] = {}
        self._askers: dict[Asker, None] = {}  # the containers of `_waiting`

    def ask(self, asker: Asker, key: Hashable, query: Query, data: bytes, stream: bool, reply: _Reply) -> None:
        """Forward the query. `reply` is called once, perhaps before this returns.

        key: names the client and its query. A query whose key waits already is a repetition, and is dropped without a
            reply
        """
        if key in asker.asked:
            return
        if len(asker.asked) >= MOST_OF_ONE or (len(self._waiting) >= self._most and not self._make_room(asker)):
            reply(query.answer([], packets.FAILED))
            return
        asked = _Asked(asker, key, query, data, stream, reply)
        asked.queue.extend(asker.servers or self._host_servers())
        self._waiting[asked] = None
        self._askers[asker] = None
        asker.asked[key] = asked
        self._go_on(asked)
        if self._waiting and not self._loop.waits_for(self._sweep):
            self._loop.after(_SWEEP_SECONDS, self._sweep)

    def _make_room(self, asker: Asker) -> bool:
        """Give up the oldest query of the container with the most, if this container has less than its share."""
        if len(asker.asked) >= self._most // len(self._askers.keys() | {asker}):
            return False
        oldest = next(iter(max(self._askers, key=lambda each: len(each.asked)).asked.values()))
        self._let_go(oldest)
        # Later, because the client that gets the reply may send its next query at once.
        self._loop.after(0.0, lambda: oldest.reply(oldest.query.answer([], packets.FAILED)))
        return True

    def forget(self, asker: Asker, key: Hashable | None = None) -> None:
        """Drop all queries of one container, or the one with this key, without a reply."""
        for asked in [asker.asked.get(key)] if key is not None else list(asker.asked.values()):
            if asked is not None:
                self._let_go(asked)

    def _let_go(self, asked: _Asked) -> None:
        for attempt in list(asked.open):
            self._close(attempt)
        self._waiting.pop(asked, None)
        asked.asker.asked.pop(asked.key, None)
        if not asked.asker.asked:
            self._askers.pop(asked.asker, None)

    def _finish(self, asked: _Asked, answer: bytes) -> None:
        self._let_go(asked)
        asked.reply(answer or asked.query.answer([], packets.FAILED))

    def _go_on(self, asked: _Asked) -> None:
        """Ask the next server that can be reached. Give up when there is none and no answer is awaited."""
        while asked.queue:
            server = asked.queue.popleft()
            asked.rounds[server] += 1
            try:
                self._attempt(asked, server)
            except OSError:
                continue  # no route to it from there, or no descriptor left: try the next server
            asked.next = time.monotonic() + TRY_SECONDS
            return
        asked.next = asked.ends
        if not asked.open:
            self._finish(asked, asked.last)

    def _attempt(self, asked: _Asked, server: Address) -> None:
        family, address = server
        kind = socket.SOCK_STREAM if asked.stream else socket.SOCK_DGRAM
        place = netns.entered(asked.asker.network) if asked.asker.servers else contextlib.nullcontext()
        with place:
            sock = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        attempt = _Attempt(asked, server, sock, os.urandom(2) + asked.data[2:])
        try:
            try:
                sock.connect(address)
            except BlockingIOError:
                pass  # a stream's connection is under way
            if not asked.stream:
                sock.send(attempt.message)
            events = WRITABLE if asked.stream else READABLE
            self._loop.add(sock.fileno(), lambda _: self._heard(attempt), events)
        except BaseException:
            sock.close()
            raise
        asked.open.append(attempt)
        if len(asked.open) > _MOST_ATTEMPTS:
            self._close(asked.open[0])

    def _close(self, attempt: _Attempt) -> None:
        attempt.asked.open.remove(attempt)
        self._loop.drop(attempt.socket.fileno())
        attempt.socket.close()

    def _heard(self, attempt: _Attempt) -> None:
        asked = attempt.asked
        if attempt not in asked.open:
            return
        try:
            answer = self._streamed(attempt) if asked.stream else attempt.socket.recv(packets.LARGEST)
        except BlockingIOError:
            return
        except OSError:  # refused, unreachable: the server is as good as not there
            answer = b""
        if answer is None:
            return
        if not answer:
            self._close(attempt)
            self._go_on_without(asked)
        elif packets.fits(attempt.message, answer):
            answer = asked.data[:2] + answer[2:]
            if packets.code_of(answer) in _UNHELPFUL:
                asked.last = answer
                self._close(attempt)
                self._go_on_without(asked)
            else:
                self._finish(asked, answer)

    def _go_on_without(self, asked: _Asked) -> None:
        """After a failed attempt, ask the next server at once, unless none is left and another answer is awaited."""
        if asked.queue or not asked.open:
            self._go_on(asked)

    def _streamed(self, attempt: _Attempt) -> bytes | None:
        """Send and receive on a stream as far as possible without waiting.

        Returns the answer, None while it is not complete, empty for an end before that.
        """
        if attempt.unsent:
            attempt.unsent = attempt.unsent[attempt.socket.send(attempt.unsent) :]
            if not attempt.unsent:
                self._loop.change(attempt.socket.fileno(), READABLE)
            return None
        came = attempt.socket.recv(packets.LARGEST)
        if not came:
            return b""
        attempt.came += came
        whole = _SIZE + int.from_bytes(attempt.came[:_SIZE], "big")
        if len(attempt.came) < max(whole, _SIZE):
            return None
        return bytes(attempt.came[_SIZE:whole])

    def _sweep(self) -> None:
        """Give up the queries whose time is over, and ask the next server for those whose server has been silent too
        long.
        """
        now = time.monotonic()
        for asked in list(self._waiting):
            if asked not in self._waiting:
                continue
            if now >= asked.ends:
                self._finish(asked, asked.last)
            elif now >= asked.next:
                silent = asked.open[-1].server if asked.open else None
                if silent is not None and asked.rounds[silent] < _ROUNDS and silent not in asked.queue:
                    asked.queue.append(silent)
                self._go_on(asked)
        if self._waiting:
            self._loop.after(_SWEEP_SECONDS, self._sweep)

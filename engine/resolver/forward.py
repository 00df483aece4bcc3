"""Queries that no network of the container's knows, asked of the servers that its host (or --dns) names.

One thread. Each attempt has a socket of its own, connected, with a port and a number that nobody can guess, so that no
one else's datagram is taken for an answer. The host's servers are asked from the host's network, others from the
container's. A server that says nothing is asked once more behind the others, and whoever answers first is believed;
what is asked by TCP is passed on by TCP. All of it is bounded: how many wait, for one container and in all, how long.
Where as many wait as may, each container has the same share of them.
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
"""When the query is given up."""
MOST_WAITING = 2048
MOST_OF_ONE = 256
_MOST_ATTEMPTS = 2  # of one query that may be answered at a time
_SWEEP_SECONDS = 0.25
_ROUNDS = 2
_UNHELPFUL = (packets.FAILED, packets.REFUSED, packets.NOT_DONE, packets.FORMAT_ERROR)
_SIZE = 2  # bytes before each message on a stream

_Reply = Callable[[bytes], None]
"""Takes the answer."""


class Asker:
    """One container's part in the forwarding.

    network: a descriptor of its namespace; servers: whom to ask from there, empty: the host's servers, from the host
    asked: what waits for others' answers
    """

    __slots__ = ("asked", "network", "servers")

    def __init__(self, network: int) -> None:
        self.network = network
        self.servers: tuple[Address, ...] = ()
        self.asked: dict[Hashable, _Asked] = {}


class _Asked:
    """One query that waits for others' answers."""

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
    """One server that was asked: the socket, what was (or is yet to be) sent, and what came of a stream so far."""

    __slots__ = ("asked", "came", "message", "server", "socket", "unsent")

    def __init__(self, asked: _Asked, server: Address, sock: socket.socket, message: bytes) -> None:
        self.asked, self.server, self.socket, self.message = asked, server, sock, message
        self.unsent = len(message).to_bytes(_SIZE, "big") + message if asked.stream else b""
        self.came = bytearray()  # a byte at a time, perhaps


class Forwarder:
    """All queries that others are asked. host_servers: says whom the host asks; most: how many queries may wait."""

    def __init__(self, loop: Loop, host_servers: Callable[[], tuple[Address, ...]], most: int = MOST_WAITING) -> None:
        self._loop = loop
        self._most = most
        self._host_servers = host_servers
        self._waiting: dict[_Asked, None] = {}
        self._askers: dict[Asker, None] = {}  # of those

    def ask(self, asker: Asker, key: Hashable, query: Query, data: bytes, stream: bool, reply: _Reply) -> None:
        """Have others answer it; `reply` is called once, perhaps before this returns, unless it waits already.

        key: names who asked what; the same again is the impatience of one who is being served
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
        """Where this one has less than its share, give up the oldest query of the one who has most."""
        if len(asker.asked) >= self._most // len(self._askers.keys() | {asker}):
            return False
        oldest = next(iter(max(self._askers, key=lambda each: len(each.asked)).asked.values()))
        self._let_go(oldest)
        # Later: who is told has perhaps the next one to ask.
        self._loop.after(0.0, lambda: oldest.reply(oldest.query.answer([], packets.FAILED)))
        return True

    def forget(self, asker: Asker, key: Hashable | None = None) -> None:
        """Let all that one has asked go, or what has this key; nobody hears of it."""
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
        """Ask the next server that can be reached; give up when there is none and nobody is to answer yet."""
        while asked.queue:
            server = asked.queue.popleft()
            asked.rounds[server] += 1
            try:
                self._attempt(asked, server)
            except OSError:
                continue  # no way to it from there (or no descriptor left): the next one
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
                pass  # a stream's, under way
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
        """One has failed: ask the next at once, unless it is being waited for another."""
        if asked.queue or not asked.open:
            self._go_on(asked)

    def _streamed(self, attempt: _Attempt) -> bytes | None:
        """Send and receive as far as it goes: the answer, None while it is not whole, empty for an end before that."""
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
        """Look for those whose time has come."""
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

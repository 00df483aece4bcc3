"""A connection of HTTP/2 on a socket, shared by threads: each gRPC call is a stream that one thread reads and writes.

One thread runs the connection (`Link.run`): it reads the socket, and it writes what another thread could not write at
once. It never waits for the other threads. A stream's bytes wait in the stream until its thread takes them, and the
peer gets room for more only then, so what waits here is bounded by the windows of HTTP/2.
"""

import collections
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

from engine.errors import Unavailable
from engine.protocols import grpc, http2, http2frames
from engine.protocols.hpack import Field
from engine.protocols.http2events import Broken, Data, Event, GoneAway, Headers, Limits, Reset, Room

_PIECE = 1 << 16
_READ = 1 << 18  # a little more than a socket holds
_MOST_UNSENT = 1 << 18  # bytes that may wait for the socket before those who send must wait
_LARGEST_MESSAGE = 16 << 20  # as much as BuildKit takes
_GOODBYE_SECONDS = 1.0
# A client sends a long list in a write for each of its entries. After so many reads in a row that nothing was sent
# between, and that brought little each, the next one waits a little: what comes together costs less.
_MANY_READS, _LITTLE, _GATHER_SECONDS = 16, 1 << 12, 0.001
_LOOK_SECONDS = 1.0  # between two calls of a stream's `check`
_QUIET_SECONDS, _ANSWER_SECONDS = (
    15.0,
    30.0,
)  # without a byte before a ping, and after it before the peer counts as gone


class Lost(Unavailable):
    """The other end has given up the call, or the whole connection; the text says which."""


class Stream:
    """One call as its thread sees it. fields: what the peer sent first, None as long as nothing has come

    deadline: of time.monotonic(), after which nothing is waited for; check: called now and then while something is
    waited for; it raises to end that
    The methods are called by one thread at a time; they wait without holding a lock.
    """

    def __init__(self, link: "Link", number: int, fields: list[Field] | None) -> None:
        """number: the stream's in HTTP/2"""
        self.number = number
        self.fields = fields
        self.trailers: list[Field] | None = None
        self._link = link
        # One run of bytes: a peer may send each in a frame of its own, and an object for each takes 100 times as much.
        self._waiting = bytearray()
        self._taken = 0  # of the window, with padding
        self._messages = grpc.Messages(_LARGEST_MESSAGE)
        self._ready: collections.deque[bytes] = collections.deque()
        self._before: Iterator[bytes | bytearray] = iter(())
        self._ended = False  # the peer says nothing more
        self._cut = ""  # why the stream has ended before its end
        self._changed = threading.Condition(link.lock)
        self._tell: Callable[[], None] | None = None
        self.deadline: float | None = None
        self.check: Callable[[], None] | None = None

    def receive(self) -> bytes | None:
        """The next message; None once the peer has ended its side. Raises Lost, `grpc.Failed`."""
        while not self._ready:
            data = next(self._before, b"") or self.body()
            if not data:
                self._messages.end()
                return None
            self._ready.extend(self._messages.feed(data))
        return self._ready.popleft()

    def body(self) -> bytes | bytearray:
        """What has come since the last call, before it is taken apart; it is empty once the peer has ended its side.

        Raises Lost, `grpc.Failed`.
        """
        with self._changed:
            while not self._waiting:
                if self._taken:  # nothing but padding
                    self._take()
                elif self._cut:
                    raise Lost(self._cut)
                elif self._ended:
                    break
                else:
                    self._wait()
            return self._take()

    def put_before(self, pieces: Iterator[bytes | bytearray]) -> None:
        """Have `receive` take the messages out of these pieces of the body first. None of them is empty."""
        self._before = pieces

    @property
    def within(self) -> bool:
        """Whether more has come than `receive` has returned."""
        return bool(self._ready) or self._messages.within or bool(self._taken)

    def answered(self) -> list[Field]:
        """The fields with which the peer answers a call of this end's. Raises Lost, `grpc.Failed`."""
        with self._changed:
            while self.fields is None:
                if self._cut:
                    raise Lost(self._cut)
                self._wait()
            return self.fields

    def ending(self) -> list[Field]:
        """The last fields of an answer that `receive` has read to its end."""
        return self.trailers or []

    def headers(self, fields: list[Field], ended: bool = False) -> None:
        """Send fields: the first of an answer, or trailers with `ended`. Raises Lost."""
        with self._changed:
            self._check()
            self._link.http.headers(self.number, fields, ended)
            self._link.flush()

    def send(self, message: bytes) -> None:
        """Send a message, in pieces where the peer gives no room for all of it. Raises Lost, `grpc.Failed`."""
        self._write(grpc.message(message), False)

    def end(self, data: bytes = b"") -> None:
        """Say that this end sends nothing more, but for these bytes, which are no message of gRPC."""
        self._write(data, True)

    def _write(self, data: bytes, ended: bool) -> None:
        left = memoryview(data)
        with self._changed:
            while True:
                self._check()
                if not self._link.http.takes(self.number):
                    return  # the peer has ended the call in its own way, which `receive` tells
                if self._link.takes_more() and (self._link.http.room(self.number) or not left):
                    taken = self._link.http.data(self.number, bytes(left[:_PIECE]), ended and len(left) <= _PIECE)
                    left = left[taken:]
                    self._link.flush()
                    if not left:
                        return
                else:
                    self._wait()

    def cancel(self, code: int = http2frames.CANCEL) -> None:
        """End the call at once, in both directions."""
        with self._changed:
            self._take()  # nobody reads it any more, and it takes room on the connection
            self._link.http.reset(self.number, code)
            self._link.forget(self.number)
            self.cut("the call was ended")
            self._link.flush()

    def _take(self) -> bytearray:
        """What has come and waits; the peer is told that there is room again. The caller holds the lock."""
        data, taken = self._waiting, self._taken
        self._waiting, self._taken = bytearray(), 0
        if taken:
            self._link.consumed(self.number, taken)
        return data

    @property
    def gone(self) -> str:
        """Why the peer has given the call up; empty while it has not."""
        return self._cut

    def on_cut(self, tell: Callable[[], None]) -> None:
        """Have `tell` called when the peer gives the call up, in the thread that runs the link: it must not wait."""
        with self._changed:
            if not self._cut:
                self._tell = tell
                return
        tell()

    def _check(self) -> None:
        if self._cut:
            raise Lost(self._cut)

    def _wait(self) -> None:
        """Wait for a change until the call's time is over. Raises `grpc.Failed`."""
        left = _LOOK_SECONDS if self.deadline is None else self.deadline - time.monotonic()
        if left <= 0:
            raise grpc.Failed(grpc.Status(grpc.DEADLINE_EXCEEDED, "context deadline exceeded"))
        self._changed.wait(min(left, _LOOK_SECONDS))
        if self.check is not None:
            self.check()

    # Called by the thread that runs the link, which holds its lock.

    def came(self, event: Headers | Data) -> None:
        """Take what the peer has sent."""
        if isinstance(event, Data):
            self._waiting += event.data
            self._taken += event.taken
        elif self.fields is None:
            self.fields = event.fields
            self.trailers = event.fields if event.ended else None
        else:
            self.trailers = event.fields
        self._ended = self._ended or event.ended
        self._changed.notify_all()

    def cut(self, why: str) -> None:
        """The stream ends before its end."""
        if not (self._link.http.client and self._ended and self.trailers is not None):  # a whole answer stays one
            self._cut = self._cut or why
            tell, self._tell = self._tell, None
            if tell is not None:
                tell()
        self._changed.notify_all()

    def room(self) -> None:
        """There may be room to send."""
        self._changed.notify_all()


class Link:
    """One connection. The lock guards the protocol's state, the streams and what waits for the socket; nobody waits for
    the peer while holding it.

    accept: called in the thread of `run`, without the lock, with each stream that the peer opens; it must not wait
    """

    def __init__(
        self,
        peer: socket.socket,
        client: bool,
        accept: Callable[[Stream], None] | None = None,
        limits: Limits | None = None,
        *,
        pings: bool = False,
        begun: bytes = b"",
    ) -> None:
        """peer: is closed when `run` returns; client: this end opens the streams

        pings: a peer that is silent is pinged, and left where it does not answer. gRPC's own servers take that ill.
        begun: what was read of the peer's preface before
        """
        self.lock = threading.RLock()
        self.http = http2.Connection(client, limits)
        self.http.receive(memoryview(begun))
        self._peer = peer
        self._accept = accept
        self._streams: dict[int, Stream] = {}
        self._unsent = bytearray()
        self._piece = bytearray(_READ)  # what is read, so that no memory is asked for each time
        self._opening = threading.Condition(self.lock)
        self._over = ""  # why nothing more can be sent
        self._pings = pings
        self._reads = 0  # in a row that brought little, while nothing was sent
        self._moved = time.monotonic()  # when bytes went or came last
        self._wakes = self._wake = -1  # a pipe while `run` runs

    def run(self) -> None:
        """Serve the connection until it ends; all streams that are open then are cut."""
        why = "the connection has ended"
        try:
            with self.lock:
                self._wakes, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
                self.flush()
            self._serve()
        except OSError as error:
            why = f"the connection is broken: {error.strerror}"
        finally:
            with self.lock:
                self._over = self._over or why
                self.http.over = True
                streams = list(self._streams.values())
                self._streams.clear()
                for stream in streams:
                    stream.cut(self._over)
                self._opening.notify_all()
                for fd in (self._wakes, self._wake):
                    if fd >= 0:  # or there was no pipe to be had
                        os.close(fd)
                self._wakes = self._wake = -1
            self._peer.close()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        until, pinged = None, 0.0
        while True:
            with self.lock:
                quiet = time.monotonic() - self._moved
                if self._pings and quiet > _QUIET_SECONDS + _ANSWER_SECONDS:
                    self._over = self._over or "the peer does not answer"
                    return
                if self._pings and quiet >= _QUIET_SECONDS and pinged < self._moved and not self.http.over:
                    self.http.ping(b"engine  ")
                    pinged = time.monotonic()
                self.flush()
                # A peer that does not read is not read either: what it asks for would pile up here.
                events = select.POLLIN if len(self._unsent) < 4 * _MOST_UNSENT else 0
                events |= select.POLLOUT if self._unsent else 0
                if self.http.over and until is None:
                    until = time.monotonic() + _GOODBYE_SECONDS
                if self.http.over and not self._unsent:
                    return
            if until is not None and time.monotonic() >= until:
                return
            poll.register(self._peer, events)
            seconds = _GOODBYE_SECONDS if until is not None else _QUIET_SECONDS if self._pings else None
            ready = dict(poll.poll(None if seconds is None else seconds * 1000))
            if self._wakes in ready:
                os.read(self._wakes, _PIECE)
            if ready.get(self._peer.fileno(), 0) & ~select.POLLOUT:
                if self._reads > _MANY_READS:
                    time.sleep(_GATHER_SECONDS)
                if not self._read():
                    return

    def _read(self) -> bool:
        """Read once and handle what came; False at the connection's end."""
        try:
            count = self._peer.recv_into(self._piece, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        if not count:
            return False
        data = memoryview(self._piece)[:count]
        opened = []
        with self.lock:
            self._moved = time.monotonic()
            self._reads = self._reads + 1 if count < _LITTLE else 0
            for event in self.http.receive(data):
                stream = self._handle(event)
                if stream is not None:
                    opened.append(stream)
        for stream in opened:
            if self._accept is not None:
                self._accept(stream)
        return True

    def _handle(self, event: Event) -> Stream | None:
        """One event; the stream that it opens, if it does."""
        match event:
            case Headers() if event.stream not in self._streams and not self.http.client:
                stream = self._streams[event.stream] = Stream(self, event.stream, None)
                stream.came(event)
                return stream
            case Headers() | Data():
                known = self._streams.get(event.stream)
                if known is not None:
                    known.came(event)
                elif isinstance(event, Data):
                    self.http.consumed(event.stream, event.taken)
            case Reset():
                known = self._streams.pop(event.stream, None)
                if known is not None:
                    known.cut("the peer has ended the call")
            case Room():
                for each in self._streams.values() if event.stream == 0 else ():
                    each.room()
                if event.stream in self._streams:
                    self._streams[event.stream].room()
                self._opening.notify_all()
            case Broken() | GoneAway():
                self._over = self._over if isinstance(event, GoneAway) else f"http2: {event.words}"
                self._opening.notify_all()
        return None

    def open(self, fields: list[Field], check: Callable[[], None] | None = None) -> Stream:
        """Begin a call; waits while the peer takes no more streams. check: as `Stream.check`. Raises Lost."""
        with self.lock:
            while not self._over and not self.http.may_open():
                if self.http.over or self.http.gone:
                    raise Lost("the connection is about to end")
                self._opening.wait(_LOOK_SECONDS)
                if check is not None:
                    check()
            if self._over:
                raise Lost(self._over)
            number = self.http.open(fields)
            stream = self._streams[number] = Stream(self, number, None)
            self.flush()
            return stream

    def close(self) -> None:
        """Say goodbye and end; `run` returns once that is sent, or soon after."""
        with self.lock:
            self.http.close()
            self._over = self._over or "the connection was closed"
            self.flush()
            self._rouse()

    # For the streams, which hold the lock.

    def consumed(self, stream: int, taken: int) -> None:
        """Bytes of a stream were taken: tell the peer that there is room."""
        self.http.consumed(stream, taken)
        self.flush()

    def takes_more(self) -> bool:
        """Whether so little waits for the socket that more may be sent."""
        return len(self._unsent) < _MOST_UNSENT

    def forget(self, stream: int) -> None:
        """Nothing more of this stream is of interest."""
        self._streams.pop(stream, None)
        self._opening.notify_all()

    def flush(self) -> None:
        """Write what the protocol has to say as far as the socket takes it; the thread of `run` writes the rest."""
        stood = bool(self._unsent)
        self._unsent += self.http.to_send()
        if not self._unsent or self._wake < 0:
            return
        try:
            sent = self._peer.send(self._unsent, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._over = self._over or f"the connection is broken: {error.strerror}"
            self._unsent.clear()
            self._peer.shutdown(socket.SHUT_RDWR)
            return
        self._reads = 0
        if sent and stood:  # what a peer that is gone does not read stays here
            self._moved = time.monotonic()
        full = not self.takes_more()
        del self._unsent[:sent]
        if self._unsent and not stood:
            self._rouse()
        if full and self.takes_more():
            for stream in self._streams.values():
                stream.room()

    def _rouse(self) -> None:
        if self._wake >= 0:
            try:
                os.write(self._wake, b"!")
            except BlockingIOError:  # the thread is to wake up already
                pass

"""Connections of published TCP ports: accepted on the host, connected to the container, and spliced both ways.

One thread. The Python version of `_muxer/proxy/stream.c`, which moves the bytes in the same way: from socket to pipe to
socket, and never read (splice(2)). A direction has a pipe only while bytes wait in it. While the receiving end takes
nothing, nothing more is read from the sending end, so the sender is slowed down and nothing is lost. Each end of
sending is passed on by itself, and so is a reset.
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable

from engine.proxy import turns
from engine.proxy.bounds import Limits
from engine.proxy.reach import Address, reach
from engine.proxy.record import Carried, Lead
from engine.proxy.turns import Loop

_AT_ONCE = 32  # connections accepted in one turn
_CHUNK = 256 * 1024  # the most bytes that wait in a pipe
_TURNS = 32  # moves of one direction, before other connections have their turn
_PIPE_SIZE = 256 * 1024
_POOL = 8  # empty pipes that are kept
_RETRY_MS = 1000
_FLAGS = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
_RESET = struct.pack("ii", 1, 0)  # struct linger
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Streams:
    """All connections of a proxy."""

    def __init__(self, served: Loop, limits: Limits) -> None:
        self.loop, self.limits = served, limits
        self.count = 0
        self.pipes: list[tuple[int, int]] = []
        self._paused: dict[Lead, None] = {}

    def accept(self, lead: Lead) -> None:
        """Accept the connections that wait. Where there is no room for more, they go on waiting in the kernel."""
        for _ in range(_AT_ONCE):
            if self.count >= self.limits.streams or lead.owner.streams >= self.limits.streams_each:
                self._pause(lead)
                return
            try:
                client, peer = lead.socket.accept()
            except (ConnectionAbortedError, InterruptedError):
                continue
            except OSError as error:
                if error.errno in _NO_ROOM:  # epoll would report it again and again
                    self._pause(lead)
                return
            client.setblocking(False)
            self._begin(lead, client, peer)

    def _begin(self, lead: Lead, client: socket.socket, peer: Address) -> None:
        """Take a client. One that cannot be served is reset."""
        container = None
        try:
            container = reach(self.limits.transparent, socket.SOCK_STREAM, peer, (lead.address, lead.port))
            Stream(self, lead, client, container)
        except OSError:  # the container's network is gone, or there is no room; the client sees the reset
            for each in filter(None, (client, container)):
                _close_with_reset(each)

    def _pause(self, lead: Lead) -> None:
        if not lead.paused:
            lead.paused = True
            self._paused[lead] = None
            self.loop.change(lead.socket.fileno(), 0)
        self.loop.after(_RETRY_MS, self.resume)

    def resume(self) -> None:
        """Let all paused leads look whether there is room again."""
        self.loop.never(self.resume)
        paused, self._paused = self._paused, {}
        for lead in paused:
            lead.paused = False
            self.loop.change(lead.socket.fileno(), turns.IN)

    def forget(self, lead: Lead) -> None:
        """A lead is about to be closed: its connections are reset."""
        for stream in list(lead.streams):
            stream.abort()
        self._paused.pop(lead, None)

    def gone(self) -> None:
        """A connection has ended, which makes room."""
        self.count -= 1
        if self._paused:
            self.resume()

    def close(self) -> None:
        """Close the pipes that are kept."""
        for pipe in self.pipes:
            _close_pipe(pipe)
        self.pipes = []


class _End:
    """One end of a connection, and the bytes that came in here and wait in a pipe for the other end."""

    __slots__ = ("ended", "held", "pipe", "readable", "shut", "socket", "writable")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.pipe: tuple[int, int] | None = None
        self.held = 0
        self.readable = self.writable = False
        self.ended = self.shut = False


class Stream(Carried):
    """A connection of a client to a container."""

    def __init__(self, streams: Streams, lead: Lead, client: socket.socket, container: socket.socket) -> None:
        """Both sockets belong to this object, unless it raises OSError."""
        self._streams, self._lead = streams, lead
        self._ends = _End(client), _End(container)
        self._connecting = True
        self._queued = self._over = False
        try:
            for side, end in enumerate(self._ends):
                end.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the sender has waited already
                end.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                streams.loop.add(end.socket.fileno(), self._handler(side), turns.ONCE)
        except OSError:
            for end in self._ends:
                streams.loop.drop(end.socket.fileno())
            raise
        lead.streams[self] = None
        streams.count += 1
        lead.owner.streams += 1

    def abort(self) -> None:
        """End the connection so that both peers see a reset: what they have got may not be all."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close()

    def _close(self) -> None:
        self._over = True
        for end in self._ends:
            self._streams.loop.drop(end.socket.fileno())
            end.socket.close()
            if end.pipe is not None:
                _close_pipe(end.pipe)
        del self._lead.streams[self]
        self._lead.owner.streams -= 1
        self._streams.gone()

    def _handler(self, side: int) -> Callable[[int], None]:
        return lambda events: self._told(side, events)

    def _told(self, side: int, events: int) -> None:
        if events & turns.ERROR:  # refused, unreachable, reset
            self.abort()
            return
        end = self._ends[side]
        end.readable = end.readable or bool(events & turns.READABLE)
        end.writable = end.writable or bool(events & (turns.OUT | turns.HANG_UP))
        if side == 1 and events & turns.OUT:
            self._connecting = False
        self._serve()

    def _again(self) -> None:
        self._queued = False
        if not self._over:
            self._serve()

    def _serve(self) -> None:
        """Move what can be moved now."""
        if self._connecting:
            return
        more = False
        client, container = self._ends
        try:
            for source, target in ((client, container), (container, client)):
                try:
                    more = self._move(source, target) or more
                finally:
                    self._give_pipe_back(source)
        except OSError:  # a peer is gone, or there is no room for a pipe
            self.abort()
            return
        if client.shut and container.shut:
            self._close()
        elif more and not self._queued:
            self._queued = True
            self._streams.loop.queue(self._again)

    def _move(self, source: _End, target: _End) -> bool:
        """Move bytes of one direction; returns whether there may be more to move at once. Raises OSError."""
        for _ in range(_TURNS):
            if source.held:
                if not target.writable:
                    return False
                assert source.pipe is not None
                try:
                    moved = os.splice(source.pipe[0], target.socket.fileno(), source.held, flags=_FLAGS)
                except BlockingIOError:
                    target.writable = False
                    continue
                if not moved:
                    raise BrokenPipeError
                source.held -= moved
                continue
            if source.ended and not target.shut:
                target.shut = True
                with contextlib.suppress(OSError):  # it has gone, as its event says too
                    target.socket.shutdown(socket.SHUT_WR)
            if source.ended or not source.readable:
                return False
            if source.pipe is None:
                source.pipe = self._take_pipe()
            try:
                source.held = os.splice(source.socket.fileno(), source.pipe[1], _CHUNK, flags=_FLAGS)
                source.ended = not source.held
            except BlockingIOError:
                source.readable = False
        return True

    def _take_pipe(self) -> tuple[int, int]:
        if self._streams.pipes:
            return self._streams.pipes.pop()
        pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        with contextlib.suppress(OSError):  # where that is refused, the usual size does
            fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        return pipe

    def _give_pipe_back(self, end: _End) -> None:
        if end.pipe is None or end.held:
            return
        if len(self._streams.pipes) < _POOL:
            self._streams.pipes.append(end.pipe)
        else:
            _close_pipe(end.pipe)
        end.pipe = None


def _close_with_reset(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    sock.close()


def _close_pipe(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    os.close(pipe[1])

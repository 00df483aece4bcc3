"""The pump in Python: moves a container's output to its log and attached clients, and the clients' bytes to its stdin.

Run by the monitor, in its only thread, for the container's whole life; tests compare `_muxer/pump/pump.c` with it. It
blocks only in poll(2), and never waits for one client while it could serve another. It never loses a byte for a client
that is merely slow: such a client slows the container down (back-pressure). A client that still reads older output from
the log slows nothing. `engine.monitor.contract` tells what the methods do.
"""

import errno
import os
import select
from collections.abc import Callable

from engine.logs import format
from engine.logs.openlog import TOLD, UNTOLD, OpenLog
from engine.monitor import contract
from engine.monitor.clients import Client
from engine.monitor.contract import Event

_TURNS = 8  # chunks of one output, or blocks for one client, before the others have their turn
_TTY_END = frozenset({errno.EIO})  # what a terminal's master reads when the last slave is closed
_HEARD = 8  # a ready watched descriptor is returned so many times in a row before clients are read
_DRAIN_LIMIT = 16 << 20  # bytes: a descendant that outlives process 1 may write for ever


class Pump(contract.Pump):
    """All the byte streams of one container, moved by Python."""

    name = "python"

    def __init__(self, log: OpenLog | None, tty: bool = False) -> None:
        self._log = log
        self._tty = tty
        self._outputs: dict[int, int] = {}  # stream → fd
        self._clients: dict[int, Client] = {}
        self._last_number = 0
        self._watched: list[int] = []
        self._heard = 0  # how many times in a row a watched descriptor was returned before clients were read
        self._events: list[Event] = []
        self._input_fd = -1
        self._input_closed = False  # there was a stdin, and it is closed
        self._close_on_eof = False
        self._closing_input = False  # a client has sent its end; close stdin when all is written
        self._input = memoryview(b"")  # read from a client, not yet written
        self._input_from: Client | None = None  # the client of the "stdin-closed" that is told when _input is written
        self._buffer = bytearray(format.FRAME.size + format.LARGEST_CHUNK)
        self._draining = False
        self._unlogged = False

    # The methods that the monitor calls.

    def add_output(self, stream: int, fd: int) -> None:
        fd = os.dup(fd) if fd == self._input_fd else fd
        os.set_blocking(fd, False)
        self._outputs[stream] = fd

    def set_input(self, fd: int, close_on_eof: bool = False) -> None:
        if fd >= 0:
            fd = os.dup(fd) if fd in self._outputs.values() else fd
            os.set_blocking(fd, False)
        self._input_fd, self._close_on_eof = fd, close_on_eof and not self._tty

    def add_client(
        self, fd: int, streams: int, framed: bool, detach: bytes = b"", replay: bool = False, owed: bytes = b""
    ) -> int:
        if len(detach) > 64:
            raise ValueError("more than 64 detach keys")
        self._last_number += 1
        client = Client(self._last_number, fd, streams, framed, detach)
        client.pending = memoryview(owed)
        if replay and self._log is not None and self._log.readable:
            client.begin_replay(self._log)
        self._clients[client.number] = client
        return client.number

    def unfinished(self, stream: int) -> bytes:
        return self._log.unfinished(stream) if self._log is not None else b""

    def watch(self, fd: int) -> None:
        self._watched.append(fd)

    def unwatch(self, fd: int) -> None:
        self._watched.remove(fd)

    @property
    def clients(self) -> int:
        return len(self._clients)

    def run(self) -> Event:
        while True:
            fd = self._turn(None)
            if self._events:
                return self._events.pop(0)
            if fd >= 0:
                return ("readable", fd)

    def drain(self) -> None:
        self._draining = True
        for stream in list(self._outputs):
            self._read_output(stream, _DRAIN_LIMIT // format.LARGEST_CHUNK)
        for stream in format.STREAMS:
            self._end_line(stream)
        self._draining = False

    def close_clients(self, patience_ms: int = 10_000) -> None:
        watched, self._watched, self._heard = self._watched, [], 0
        outputs, self._outputs = self._outputs, {}
        events, self._events = self._events, []
        self._input, self._input_from = memoryview(b""), None
        for client in self._clients.values():
            client.sends = False
        in_vain = False
        while self._clients:
            for client in list(self._clients.values()):
                if in_vain or not client.owed:
                    self._remove(client)
            in_vain = bool(self._clients) and self._turn(patience_ms) == -2
            self._events = []
        self._watched, self._outputs = watched, outputs
        self._events = [event for event in events if event[0] != "client"]

    def close(self) -> None:
        for client in list(self._clients.values()):
            self._remove(client)
        for fd in self._outputs.values():
            os.close(fd)
        self._outputs = {}
        self._input, self._input_from = memoryview(b""), None
        self._close_input()
        self._events = []

    # One turn of the loop.

    def _turn(self, wait_ms: float | None) -> int:
        """Waits, then moves what can be moved. Returns a watched descriptor that is ready, -1 for none, or -2 if
        nothing was.

        Watched descriptors are returned before clients are read, so that a terminal has its new size before it gets the
        bytes that were typed after the resize.
        """
        looks = [look for client in self._clients.values() if (look := client.look_again()) is not None]
        if looks:
            wait_ms = min(looks) * 1000
        poll = select.poll()
        if self._outputs and self._may_read_outputs():
            for fd in self._outputs.values():
                poll.register(fd, select.POLLIN)
        if self._input and self._input_fd >= 0:
            poll.register(self._input_fd, select.POLLOUT)
        for client in self._clients.values():
            if not client.hung_up:
                poll.register(client.fd, self._interest(client))
        for fd in self._watched:  # last: poll(2) looks in this order
            poll.register(fd, select.POLLIN)
        ready = dict(poll.poll(0 if self._events or self._heard else wait_ms))
        for stream, fd in list(self._outputs.items()):
            if fd in ready:
                self._read_output(stream, _TURNS)
        if self._input_fd in ready:
            self._write_input()
        watched = next((fd for fd in self._watched if fd in ready), -1)
        if watched >= 0:
            # It goes to the end of the list, so that a busy descriptor cannot keep the others from being returned.
            self._watched.remove(watched)
            self._watched.append(watched)
        self._heard = self._heard + 1 if watched >= 0 and self._heard < _HEARD else 0
        for client in list(self._clients.values()):
            events = ready.get(client.fd, 0) & (~select.POLLIN if self._heard else ~0)
            if client.held:
                events |= select.POLLOUT
            if events:
                self._serve(client, events)
        for client in list(self._clients.values()):
            if client.hung_up and not self._heard:
                self._read_client(client)
        return watched if ready or looks else -2

    def _tell(self, event: Event) -> None:
        """Queues an event; an event that already waits in the queue is not queued twice."""
        if event not in self._events and not (event[0] == "unlogged" and event[0] in [e[0] for e in self._events]):
            self._events.append(event)

    def _may_read_outputs(self) -> bool:
        """Whether the outputs may be read now.

        False while a client that is up to date has not taken the last chunk (or many chunks, before it has read its
        head), or while a rotation is due and must wait.
        """
        if any(client.full for client in self._clients.values()):
            return False
        log = self._log
        return log is None or not (log.full and (log.busy or self._held_back(log)))

    def _held_back(self, log: OpenLog) -> bool:
        """True while a rotation would remove a segment that a replaying client has not opened yet."""
        oldest = log.number + 1 - log.max_files
        return any(client.replaying and client.segment < oldest for client in self._clients.values())

    def _interest(self, client: Client) -> int:
        events = 0
        if client.owed and not client.held:
            events |= select.POLLOUT
        if client.sends and not self._input and (self._input_fd >= 0 or self._input_closed):
            events |= select.POLLIN
        return events

    # Output.

    def _read_output(self, stream: int, turns: int) -> None:
        """Reads chunks of one output.

        Stops when the output is empty, when the pump must wait for a client or the log, or when its turn is over.
        """
        fd = self._outputs[stream]
        payload = memoryview(self._buffer)[format.FRAME.size :]
        for _ in range(turns):
            if not self._draining and not self._may_read_outputs():
                return
            if self._log is not None and self._log.due and not self._draining:
                self._logged(self._log, self._log.rotate)
            try:
                size = os.readv(fd, [payload])
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _TTY_END:
                    raise
                size = 0
            if size == 0:
                os.close(self._outputs.pop(stream))
                self._end_line(stream)
                self._tell(("eof", stream))
                return
            format.FRAME.pack_into(self._buffer, 0, stream, size)
            self._deliver(stream, memoryview(self._buffer)[: format.FRAME.size + size])

    def _deliver(self, stream: int, frame: memoryview) -> None:
        """Writes one chunk to the log, then gives it to each client that is up to date."""
        readable, place = None, (0, 0)
        if (log := self._log) is not None:
            place = (log.number, log.position)
            if self._logged(log, log.append, stream, frame[format.FRAME.size :]) and log.readable:
                readable = log
        for client in list(self._clients.values()):
            if client.replaying or client.hung_up or not client.streams & 1 << stream:
                continue
            if client.pending and readable is not None:
                client.fall_back(readable, *place)  # only when draining: the client reads from the log what it misses
                continue
            client.take(frame)
            if not client.send():
                self._leave(client, "gone")

    def _logged(self, log: OpenLog, call: Callable[..., None], *arguments: int | memoryview) -> bool:
        """Calls a method of the log; False when that failed. Only the first of several failures in a row is told."""
        failed = None
        try:
            call(*arguments)
        except OSError as error:
            failed = error
        if failed and not self._unlogged:
            self._tell(("unlogged", failed.errno or 0))
        self._unlogged = failed is not None
        if log.busy == UNTOLD:
            log.busy = TOLD
            self._tell(("rotated",))
        return failed is None

    def _end_line(self, stream: int) -> None:
        if self._log is not None and self._log.unfinished(stream):
            self._logged(self._log, self._log.end, stream)

    # Clients.

    def _serve(self, client: Client, events: int) -> None:
        """Acts on what poll(2) reported for one client."""
        if events & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
            # The client receives nothing any more, but what it sent before it left still goes to the container.
            client.hung_up = True
            client.drop_pending()
            return
        if events & select.POLLOUT and not self._send_owed(client):
            self._leave(client, "gone")
            return
        if events & select.POLLIN:
            self._read_client(client)

    def _send_owed(self, client: Client) -> bool:
        for _ in range(_TURNS):
            if not client.send():
                return False
            if client.pending or not client.replaying or self._log is None:
                return True
            client.load(self._log)
        return True

    def _read_client(self, client: Client) -> None:
        """Reads the client's bytes for stdin, as long as the container takes them."""
        while client.sends and not self._input and (self._input_fd >= 0 or self._input_closed):
            data = client.receive()
            if data is None:
                return
            if not data:
                client.sends = False
                self._end_of_client(client)
                break
            forward, found = client.sift(data)
            self._input = memoryview(forward)
            self._write_input()
            if found:
                self._leave(client, "detached")
                return
            if not client.hung_up:
                return
        if client.hung_up and (not client.sends or (self._input_fd < 0 and not self._input_closed)):
            self._leave(client, "gone")

    def _end_of_client(self, client: Client) -> None:
        self._input = memoryview(client.withheld())
        self._input_from = client
        self._closing_input = self._closing_input or self._close_on_eof
        self._write_input()

    def _leave(self, client: Client, what: str) -> None:
        if client.number not in self._clients:
            return
        self._remove(client)
        self._tell(("client", client.number, what))
        if what == "gone" and client.sends and self._close_on_eof:
            client.sends = False
            self._closing_input = True
            self._write_input()

    def _remove(self, client: Client) -> None:
        del self._clients[client.number]
        client.close()

    # Input.

    def _write_input(self) -> None:
        """Writes what was read from a client, and then does what was due after it."""
        while self._input and self._input_fd >= 0:
            try:
                self._input = self._input[os.write(self._input_fd, self._input) :]
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.EIO):
                    raise
                self._close_input()  # the container has closed its stdin; what clients still send is thrown away
        self._input = memoryview(b"")
        if self._input_from is not None:
            self._tell(("client", self._input_from.number, "stdin-closed"))
            self._input_from = None
        if self._closing_input:
            self._close_input()

    def _close_input(self) -> None:
        if self._input_fd >= 0:
            os.close(self._input_fd)
            self._input_closed = True
        self._input_fd = -1
        self._closing_input = False

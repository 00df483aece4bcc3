"""The pump and the waiters of the C muxer, as subclasses of the abstract classes in `engine.monitor.contract`.

Run by the monitor. While bytes move, no Python object is touched and the interpreter's lock is free.
`engine.monitor.contract` tells what each method does.
"""

import os
from collections.abc import Callable

from _muxer._native import ffi, lib
from engine.logs.format import LINE_LIMIT
from engine.logs.openlog import OpenLog
from engine.monitor import contract
from engine.monitor.contract import Event

# The fields of a log writer that the C code changes.
_MOVED = ("log_fd", "index_fd", "number", "limit", "position", "records", "open_lines", "last_ns", "busy")
_OPENED = ("directory_fd", "max_files", "max_size", "json", "compress", "name")
LENT = _OPENED + _MOVED

_EVENTS: dict[int, Callable[[int], Event]] = {
    lib.MUX_READABLE: lambda number: ("readable", number),
    lib.MUX_EOF: lambda number: ("eof", number),
    lib.MUX_GONE: lambda number: ("client", number, "gone"),
    lib.MUX_DETACHED: lambda number: ("client", number, "detached"),
    lib.MUX_STDIN_CLOSED: lambda number: ("client", number, "stdin-closed"),
    lib.MUX_ROTATED: lambda _: ("rotated",),
    lib.MUX_UNLOGGED: lambda number: ("unlogged", number),
}


class Pump(contract.Pump):
    """All the byte streams of one container, moved by C."""

    name = "c"

    def __init__(self, log: OpenLog | None, tty: bool = False) -> None:
        self._log = log
        self._c_log = ffi.new("struct mux_log *") if log is not None else ffi.NULL
        self._event = ffi.new("struct mux_event *")
        self._lend()
        self._pump = lib.mux_pump_new(self._c_log, tty)
        if not self._pump:
            raise MemoryError

    def add_output(self, stream: int, fd: int) -> None:
        _check(lib.mux_pump_add_output(self._pump, stream, fd))

    def set_input(self, fd: int, close_on_eof: bool = False) -> None:
        _check(lib.mux_pump_set_input(self._pump, fd, close_on_eof))

    def add_client(
        self, fd: int, streams: int, framed: bool, detach: bytes = b"", replay: bool = False, owed: bytes = b""
    ) -> int:
        if len(detach) > 64:
            raise ValueError("more than 64 detach keys")
        self._lend()
        told = (streams, framed, detach, len(detach), replay, owed, len(owed))
        return _check(lib.mux_pump_add_client(self._pump, fd, *told))

    def unfinished(self, stream: int) -> bytes:
        room = ffi.new("uint8_t[]", LINE_LIMIT)
        return ffi.buffer(room, lib.mux_pump_unfinished(self._pump, stream, room, LINE_LIMIT))[:]

    def watch(self, fd: int) -> None:
        _check(lib.mux_pump_watch(self._pump, fd))

    def unwatch(self, fd: int) -> None:
        if lib.mux_pump_unwatch(self._pump, fd) < 0:
            raise ValueError(f"descriptor {fd} is not watched")

    @property
    def clients(self) -> int:
        return lib.mux_pump_clients(self._pump)

    def run(self) -> Event:
        while True:
            self._call(lib.mux_pump_run, self._event)
            make = _EVENTS.get(self._event.kind)
            if make is not None:  # any other kind means that a signal came, whose handler has run by now
                return make(self._event.number)

    def drain(self) -> None:
        self._call(lib.mux_pump_drain)

    def close_clients(self, patience_ms: int = 10_000) -> None:
        while True:
            try:
                self._call(lib.mux_pump_close_clients, patience_ms)
            except InterruptedError:
                continue
            return

    def close(self) -> None:
        if self._pump:
            lib.mux_pump_free(self._pump)
        self._pump = ffi.NULL

    def _call(self, function: Callable[..., int], *arguments: "int | ffi.Event") -> None:
        """Calls a function of C while the log writer's state is lent to it."""
        self._lend()
        result = function(self._pump, *arguments)
        if self._log is not None:
            for name in _MOVED:
                setattr(self._log, name, lent(self._c_log, name))
        _check(result)

    def _lend(self) -> None:
        if self._log is not None:
            for name in LENT:
                setattr(self._c_log, name, getattr(self._log, name))


class Waiters(contract.Waiters):
    """The clients that wait for a container's end, kept by C."""

    def __init__(self) -> None:
        self._waiters = lib.mux_waiters_new()
        if not self._waiters:
            raise MemoryError
        self.fd = lib.mux_waiters_fd(self._waiters)

    def __len__(self) -> int:
        return lib.mux_waiters_count(self._waiters)

    def take(self, datagram: bytes, fd: int) -> None:
        _check(lib.mux_waiters_take(self._waiters, datagram, len(datagram), fd))

    def answered(self, datagram: bytes) -> None:
        lib.mux_waiters_answered(self._waiters, datagram, len(datagram))

    def look(self) -> None:
        lib.mux_waiters_look(self._waiters)

    def orphan(self) -> None:
        lib.mux_waiters_orphan(self._waiters)

    def answer(self, code: int, removed: bool) -> None:
        lib.mux_waiters_answer(self._waiters, code, removed)

    def close(self) -> None:
        if self._waiters:
            lib.mux_waiters_free(self._waiters)
        self._waiters = ffi.NULL


def lent(c_log: "ffi.Log", name: str) -> int | bytes:
    """The value of a log writer's field in its C structure."""
    if name == "name":
        return ffi.string(c_log.name)
    number: int = getattr(c_log, name)
    return number


def _check(result: int) -> int:
    """The result of a call; raises OSError for a negative errno."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result

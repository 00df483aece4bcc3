"""The types of the compiled module `_muxer._native` for type checkers: each function, constant and struct in muxer.h.

At run time every struct and every pointer is a `CData` of cffi, and `ffi` is an object. It is a class in this file so
that it can hold the names of the structs. A test compares the names with those in muxer.h.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, Literal, TypeVar, overload

_Kind = TypeVar("_Kind", bound=ffi.CData)

class ffi:
    class CData:
        """A value of C, or a pointer to one; false when that is NULL."""

        def __bool__(self) -> bool: ...

    class Numbers(CData):
        """An array of numbers."""

        @overload
        def __getitem__(self, part: slice) -> ffi.Numbers: ...
        @overload
        def __getitem__(self, part: int) -> int: ...
        def __setitem__(self, part: int, value: int) -> None: ...
        def __add__(self, count: int) -> ffi.Numbers: ...
        def __iter__(self) -> Iterator[int]: ...

    class Log(CData):
        """struct mux_log *"""

        log_fd: int
        index_fd: int
        directory_fd: int
        number: int
        max_files: int
        open_lines: int
        json: int
        compress: int
        busy: int
        late: int
        max_size: int
        limit: int
        position: int
        records: int
        last_ns: int
        name: ffi.CData

    class Event(CData):
        """struct mux_event *"""

        kind: int
        number: int

    class Pump(CData):
        """struct mux_pump *"""

    class Waiters(CData):
        """struct mux_waiters *"""

    class Lines(CData):
        """struct mux_lines *"""

    class Extract(CData):
        """struct mux_extract *"""

    class Extracted(CData):
        """struct mux_extracted *"""

        done: int
        size: int
        counted: int
        directories_size: int
        directories: ffi.Numbers

    class Sum(CData):
        """struct mux_sha256 *"""

        words: ffi.Numbers
        size: int
        held: ffi.Numbers

    class Query(CData):
        """struct mux_query *"""

        want_stdout: int
        want_stderr: int
        timestamps: int
        tty: int
        chunked: int
        first_ns: int
        last_ns: int
        tail: int
        prefix: ffi.CData
        prefix_size: int
        ends: int
        end_segment: int
        end_record: int

    class HandedClient(CData):
        """struct mux_handed_client *"""

        streams: int
        framed: int
        replay: int
        detach_size: int
        detach: ffi.Numbers

    class Handover(CData):
        """struct mux_handover *"""

        tty: int
        close_on_eof: int
        has_process: int
        has_home: int
        has_mounts: int
        has_log: int
        has_input: int
        has_stdout: int
        has_stderr: int
        pid: int
        pid_start: int
        started_ns: int
        log: ffi.Log
        client_count: int
        container: ffi.CData
        head_size: int
        head: ffi.CData
        clients: Sequence[ffi.HandedClient]

    class Stay(CData):
        """struct mux_stay *"""

        request: ffi.Numbers
        request_size: int
        fds: ffi.Numbers
        fd_count: int
        launcher: int
        launching: int
        launching_end: int
        wants: int
        pidfd: int
        listener: int
        link: int
        exec_dir: int
        mounts: int
        terminal: int
        record: int
        furniture: ffi.CData
        furniture_size: int
        place: ffi.CData
        title: ffi.CData
        title_size: int
        event: ffi.Event
        pump: ffi.Pump
        pump_place: ffi.CData
        log: ffi.Log
        waiters: ffi.Waiters
        compressing: int
        compressing_end: int
        has_ended: int
        exit_code: int
        finished_ns: int
        handed: ffi.Handover
        program: bytes

    class Limits(CData):
        """struct mux_proxy_limits *"""

        leads: int
        streams: int
        streams_each: int
        flows: int
        flows_each: int
        idle_ms: int
        linger_ms: int
        transparent: int

    class Null(Log, Event, Pump, Waiters, Lines):
        """NULL, which is a pointer of any kind."""

    class CType(Generic[_Kind]):
        """The result of `ffi.typeof`, which looks a type up once."""

    class buffer:
        def __init__(self, cdata: ffi.CData, size: int) -> None: ...
        def __getitem__(self, part: slice) -> bytes: ...

    NULL: Null

    @overload
    @staticmethod
    def typeof(cdecl: Literal["struct mux_handover *"]) -> CType[Handover]: ...
    @overload
    @staticmethod
    def typeof(cdecl: Literal["char[]", "char *[]", "uint8_t[]"]) -> CType[ffi.CData]: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["struct mux_log *"]) -> Log: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["struct mux_event *"]) -> Event: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["struct mux_extracted *"]) -> Extracted: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["struct mux_sha256 *"]) -> Sum: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["struct mux_query *"], init: Mapping[str, int | ffi.CData]) -> Query: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["struct mux_proxy_limits *"], init: Mapping[str, int]) -> Limits: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["uint64_t *", "size_t *"]) -> Numbers: ...
    @overload
    @staticmethod
    def new(cdecl: Literal["uint8_t[]"], init: int) -> Numbers: ...
    @overload
    @staticmethod
    def new(cdecl: CType[_Kind], init: bytes | Sequence[ffi.CData] | Mapping[str, object]) -> _Kind: ...
    @staticmethod
    def cast(cdecl: Literal["uint8_t *"], value: CData) -> Numbers: ...
    @overload
    @staticmethod
    def from_buffer(data: bytes) -> CData: ...
    @overload
    @staticmethod
    def from_buffer(cdecl: Literal["uint8_t[]"], data: bytes | memoryview) -> Numbers: ...
    @staticmethod
    def string(cdata: CData) -> bytes: ...

class _Lib:
    MUX_IDLE: int
    MUX_UNTOLD: int
    MUX_TOLD: int

    MUX_READABLE: int
    MUX_EOF: int
    MUX_GONE: int
    MUX_DETACHED: int
    MUX_STDIN_CLOSED: int
    MUX_ROTATED: int
    MUX_UNLOGGED: int
    MUX_INTERRUPTED: int

    MUX_LINES_READ: int
    MUX_LINES_OTHER: int
    MUX_LINES_PAST: int
    MUX_LINES_LOOK: int
    MUX_LINES_LEFT: int
    MUX_LINES_TOGETHER: int

    MUX_EXTRACT_MORE: int
    MUX_EXTRACT_DATA: int
    MUX_EXTRACT_OTHER: int
    MUX_EXTRACT_FULL: int

    MUX_ENDED: int
    MUX_CONTRACT: int
    MUX_LAUNCHES: int
    MUX_PREPARES: int
    MUX_PREPARES_EXEC: int
    MUX_RESOLVES: int

    def mux_pump_new(self, log: ffi.Log, tty: bool, /) -> ffi.Pump: ...
    def mux_pump_free(self, pump: ffi.Pump, /) -> None: ...
    def mux_pump_add_output(self, pump: ffi.Pump, stream: int, fd: int, /) -> int: ...
    def mux_pump_set_input(self, pump: ffi.Pump, fd: int, close_on_eof: bool, /) -> int: ...
    def mux_pump_add_client(
        self,
        pump: ffi.Pump,
        fd: int,
        streams: int,
        framed: bool,
        detach: bytes,
        detach_size: int,
        replay: bool,
        owed: bytes,
        owed_size: int,
        /,
    ) -> int: ...
    def mux_pump_watch(self, pump: ffi.Pump, fd: int, /) -> int: ...
    def mux_pump_unwatch(self, pump: ffi.Pump, fd: int, /) -> int: ...
    def mux_pump_clients(self, pump: ffi.Pump, /) -> int: ...
    def mux_pump_unfinished(self, pump: ffi.Pump, stream: int, to: ffi.Numbers, size: int, /) -> int: ...
    def mux_pump_run(self, pump: ffi.Pump, event: ffi.Event, /) -> int: ...
    def mux_pump_drain(self, pump: ffi.Pump, /) -> int: ...
    def mux_pump_close_clients(self, pump: ffi.Pump, patience_ms: int, /) -> int: ...
    def mux_waiters_new(self) -> ffi.Waiters: ...
    def mux_waiters_free(self, waiters: ffi.Waiters, /) -> None: ...
    def mux_waiters_fd(self, waiters: ffi.Waiters, /) -> int: ...
    def mux_waiters_count(self, waiters: ffi.Waiters, /) -> int: ...
    def mux_waiters_take(self, waiters: ffi.Waiters, datagram: bytes, size: int, fd: int, /) -> int: ...
    def mux_waiters_answered(self, waiters: ffi.Waiters, datagram: bytes, size: int, /) -> None: ...
    def mux_waiters_look(self, waiters: ffi.Waiters, /) -> None: ...
    def mux_waiters_orphan(self, waiters: ffi.Waiters, /) -> None: ...
    def mux_waiters_answer(self, waiters: ffi.Waiters, code: int, removed: bool, /) -> None: ...
    def mux_send(self, directory: bytes, sink_fd: int, query: ffi.Query, ended_fd: int, /) -> int: ...
    def mux_lines_new(self, sink_fd: int, query: ffi.Query, /) -> ffi.Lines: ...
    def mux_lines_free(self, lines: ffi.Lines, /) -> None: ...
    def mux_lines_read(self, lines: ffi.Lines, fd: int, offset: ffi.Numbers, /) -> int: ...
    def mux_lines_feed(self, lines: ffi.Lines, data: ffi.CData, size: int, done: ffi.Numbers, /) -> int: ...
    def mux_lines_other(self, lines: ffi.Lines, size: ffi.Numbers, /) -> ffi.CData: ...
    def mux_lines_put(
        self, lines: ffi.Lines, stream: int, time_ns: int, prefix: bytes, prefix_size: int, text: bytes, size: int, /
    ) -> int: ...
    def mux_lines_learn(
        self, lines: ffi.Lines, attributes: bytes, size: int, prefix: bytes, prefix_size: int, /
    ) -> int: ...
    def mux_lines_sift(self, lines: ffi.Lines, sifts: bool, /) -> None: ...
    def mux_lines_limit(self, lines: ffi.Lines, limit: int, /) -> None: ...
    def mux_lines_flush(self, lines: ffi.Lines, finish: bool, /) -> int: ...
    def mux_lines_wait(
        self, lines: ffi.Lines, fd: int, offset: ffi.Numbers, path: bytes, changes: int, ended_fd: int, /
    ) -> int: ...
    def mux_lines_together(self, lines: ffi.Lines, offset: ffi.Numbers, ended_fd: int, /) -> int: ...
    def mux_sha256_fits(self) -> int: ...
    def mux_sha256_begin(self, sum: ffi.Sum, /) -> None: ...
    def mux_sha256_update(self, sum: ffi.Sum, data: ffi.Numbers, size: int, /) -> None: ...
    def mux_sha256_digest(self, sum: ffi.Sum, digest: ffi.Numbers, /) -> None: ...
    def mux_stay_new(self) -> ffi.Stay: ...
    def mux_spawn(self, requests: int, stay: ffi.Stay, spares: bool, /) -> int: ...
    def mux_be_born(
        self,
        plan: bytes,
        size: int,
        furniture: bytes,
        furniture_size: int,
        place: bytes | ffi.CData,
        stdio: Sequence[int],
        report: int,
        /,
    ) -> None: ...
    def mux_newborn(self, path: bytes, argv: ffi.CData, envp: ffi.CData, terminal: bool, /) -> int: ...
    def mux_name(self, stay: ffi.Stay, kind: bytes, of: bytes, /) -> None: ...
    def mux_take(self, stay: ffi.Stay, /) -> int: ...
    def mux_hand_over(
        self, stay: ffi.Stay, handed: ffi.Handover, fds: Sequence[int], count: int, clients: Sequence[int], /
    ) -> int: ...
    def mux_proxy(self, link: int, daemons: int, home: int, limits: ffi.Limits, /) -> int: ...
    def mux_proxy_confine(self, transparent: int, /) -> int: ...
    def mux_remove_tree(self, parent: int, name: bytes, /) -> int: ...
    def mux_extract_new(self, root: int, /) -> ffi.Extract: ...
    def mux_extract_free(self, extract: ffi.Extract, /) -> None: ...
    def mux_extract_feed(self, extract: ffi.Extract, data: ffi.CData, size: int, told: ffi.Extracted, /) -> int: ...
    def mux_extract_forget(self, extract: ffi.Extract, /) -> None: ...
    def mux_extract_name(self, extract: ffi.Extract, /) -> ffi.CData: ...

lib: _Lib

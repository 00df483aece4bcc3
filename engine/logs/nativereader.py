"""Calls the C muxer's log reader, with the same signature as `send` of the Python reader.

Run by the daemon's threads. While bytes move, no Python object is touched and the interpreter's lock is free.
"""

import os

from _muxer._native import ffi, lib
from engine.logs.query import Query


def asked(query: Query, chunked: bool, prefix: bytes) -> "ffi.Query":
    """The query as C has it. prefix: is not copied, and has to stay"""
    return ffi.new(
        "struct mux_query *",
        {
            "want_stdout": query.stdout,
            "want_stderr": query.stderr,
            "timestamps": query.timestamps,
            "tty": query.tty,
            "chunked": chunked,
            "first_ns": query.first_ns,
            "last_ns": query.last_ns,
            "tail": -1 if query.tail is None else max(query.tail, 0),
            "prefix": ffi.cast("uint8_t *", ffi.from_buffer(prefix)),
            "prefix_size": len(prefix),
            "ends": query.end is not None,
            "end_segment": query.end[0] if query.end else 0,
            "end_record": query.end[1] if query.end else 0,
        },
    )


def send(directory: str, sink_fd: int, query: Query, chunked: bool = False, ended_fd: int | None = None) -> bool:
    """Writes the wanted lines of a log to `sink_fd`, in the same way as `engine.logs.reader.send`. Raises OSError."""
    ended = -1 if ended_fd is None else ended_fd
    result = lib.mux_send(os.fsencode(directory), sink_fd, asked(query, chunked, query.prefix), ended)
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result == 1

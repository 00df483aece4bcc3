"""Follows a log that is being written: reads on whenever its directory changes, until it is complete.

Run by a thread of the daemon, for the readers of every form of log. It opens nothing but the watch on the directory.
"""

import select
import time
from collections.abc import Callable

from engine.logs.inotify import Inotify
from engine.logs.query import Query
from engine.logs.sink import Sink


def follow(
    directory: str, advance: Callable[[bool], bool], sink: Sink, sink_fd: int, query: Query, ended_fd: int
) -> bool:
    """Let `advance` send what is new until the log is complete or `until` is past; False when the client left first.

    advance: called with True for the last time; it returns True when nothing more is wanted
    """
    with Inotify(directory) as changes:
        while True:
            changes.begin()
            # Asked before reading: what was written before the end was told is then certain to be read.
            last = bool(_ready({ended_fd: select.POLLIN}, 0)) or 0 < query.until_ns <= time.time_ns()
            if advance(last) or last:
                return True
            sink.flush()
            wait = changes.patience_ms
            if query.until_ns > 0:
                rest = max(query.until_ns - time.time_ns(), 0) // 1_000_000 + 1
                wait = rest if wait is None else min(wait, rest)
            ready = _ready({sink_fd: 0, ended_fd: select.POLLIN, changes.fd: select.POLLIN}, wait)
            if sink_fd in ready:
                return False
            if changes.fd in ready:
                changes.drain()


def _ready(wanted: dict[int, int], wait_ms: int | None) -> set[int]:
    poll = select.poll()
    for fd, events in wanted.items():
        if fd >= 0:
            poll.register(fd, events)
    return {fd for fd, _ in poll.poll(wait_ms)}

"""Follows a log that is still written: lets a reader send what is new, with inotify or by polling, until the log ends.

Run by a thread of the daemon, for the readers of every log format. It opens nothing but the watch on the directory. If
inotify has no watches left, it looks at the log at short intervals instead.
"""

import errno
import os
import select
import time
from collections.abc import Callable

from engine.kernel import inotify
from engine.logs.query import Query

_NO_WATCH_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOENT, errno.ENOSYS})
_INTERVAL_MS = 50


def follow(
    directory: str,
    advance: Callable[[bool], None],
    wait: Callable[["Changes", int], bool],
    query: Query,
    ended_fd: int,
) -> bool:
    """Let `advance` send what is new until the log is complete or `until` is past; False when the client left first.

    advance: called with True for the last time
    wait: called with the changes and `ended_fd`. It sends what waits, and then waits until there may be more, as
        `Changes.wait` does
    """
    with Changes(directory) as changes:
        while True:
            changes.begin()
            # Checked before reading: what was written before the end was signalled is then certain to be read.
            last = bool(_ready({ended_fd: select.POLLIN}, 0)) or 0 < query.until_ns <= time.time_ns()
            advance(last)
            if last:
                return True
            if not wait(changes, ended_fd):
                return False


class Changes:
    """A watch on one directory: `fd` is readable after a change. Without a watch it is -1, and waits are short."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.fd = -1

    def begin(self) -> None:
        """Begins to watch, unless it does already; to be called before the reading, so that no change is missed.

        Does nothing where there are no watches left (128 per user by default) or no directory yet. Raises OSError.
        """
        if self.fd >= 0:
            return
        try:
            self.fd = inotify.create()
            inotify.watch(self.fd, self._directory, inotify.MODIFIED | inotify.CREATED)
        except OSError as error:
            self.close()
            if error.errno not in _NO_WATCH_LEFT:
                raise

    def wait(self, sink_fd: int, query: Query, ended_fd: int) -> bool:
        """Waits for a change, for the log's end or for the query's; False when the client has left."""
        wait = None if self.fd >= 0 else _INTERVAL_MS
        if query.until_ns > 0:
            rest = max(query.until_ns - time.time_ns(), 0) // 1_000_000 + 1
            wait = rest if wait is None else min(wait, rest)
        ready = _ready({sink_fd: 0, ended_fd: select.POLLIN, self.fd: select.POLLIN}, wait)
        if sink_fd in ready:
            return False
        if self.fd in ready:
            inotify.read(self.fd)  # which events they are does not matter, because the reader looks at everything
        return True

    def close(self) -> None:
        """Closes the watch's descriptor."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> "Changes":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _ready(wanted: dict[int, int], wait_ms: int | None) -> set[int]:
    poll = select.poll()
    for fd, events in wanted.items():
        if fd >= 0:
            poll.register(fd, events)
    return {fd for fd, _ in poll.poll(wait_ms)}

"""Waits for changes of a log's directory, by inotify(7).

Run by the daemon's thread that follows the log. The Python library has no inotify, so libc is asked by ctypes. Where
inotify has nothing left to give, following goes on by looking at short intervals.
"""

import ctypes
import errno
import os

_IN_MODIFY, _IN_CREATE = 0x2, 0x100
_NO_WATCH_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.ENOENT, errno.ENOSYS})
_INTERVAL_MS = 50


class Inotify:
    """A watch on one directory: readable at `fd` after a change. Without one, `fd` is -1 and `patience_ms` is short."""

    def __init__(self, directory: str):
        self._directory = directory
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd = -1

    def begin(self) -> None:
        """Begins to watch, unless that is so already; to be called before the reading, so that no change is missed.

        Where there are no watches left (128 per user by default), or no directory yet, it does nothing. Raises OSError.
        """
        if self.fd >= 0:
            return
        self.fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd >= 0:
            path, mask = os.fsencode(self._directory), ctypes.c_uint32(_IN_MODIFY | _IN_CREATE)
            if self._libc.inotify_add_watch(self.fd, path, mask) >= 0:
                return
        number = ctypes.get_errno()
        self.close()
        if number not in _NO_WATCH_LEFT:
            raise OSError(number, os.strerror(number), self._directory)

    @property
    def patience_ms(self) -> int | None:
        """How long to wait at most before looking again: for ever (None) when the kernel tells of changes."""
        return None if self.fd >= 0 else _INTERVAL_MS

    def drain(self) -> None:
        """Takes the events away; which they were does not matter, for the reader looks at everything."""
        try:
            os.read(self.fd, 65536)
        except BlockingIOError:
            pass  # another change came and went

    def close(self) -> None:
        """Gives the descriptor back."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __enter__(self) -> "Inotify":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

"""Reads the kernel's own log from /dev/kmsg, record by record, each one once.

Runs in the daemon, on hosts where systemd removes cgroups; one thread at a time uses a `KernelLog`. The kernel keeps
its latest records only. It never waits, and passes over what processes have written into the log. The format is
described in the kernel's Documentation/ABI/testing/dev-kmsg.
"""

import errno
import os

_LARGEST = 8192
_MOST = 100_000


class KernelLog:
    """A place in the kernel's log."""

    def __init__(self, path: str = "/dev/kmsg", *, end: bool) -> None:
        """Open the log at its oldest record, or behind its last one (end). Raises OSError."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if end:
                os.lseek(self._descriptor, 0, os.SEEK_END)
        except BaseException:
            os.close(self._descriptor)
            raise

    def read(self) -> list[str]:
        """The texts of the records that have come since, oldest first. Raises OSError."""
        found = []
        for _ in range(_MOST):
            try:
                record = os.read(self._descriptor, _LARGEST)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:  # the next records were overwritten: the read after this has the oldest
                    raise
                continue
            if not record:
                break
            head, _, text = record.partition(b";")
            priority = head.partition(b",")[0]
            if priority.isdigit() and int(priority) < 8:  # facility 0 is the kernel
                found.append(text.partition(b"\n")[0].decode("utf-8", "replace"))
        return found

    def close(self) -> None:
        """Close the log."""
        os.close(self._descriptor)

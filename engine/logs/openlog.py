"""What the open ends of logs of every form have in common: three descriptors, and the place that is reached.

Owned by the monitor. With the C pump an open end only owns the descriptors, and the C moves the fields.
"""

import os


class OpenLog:
    """The open end of a log, as a context manager.

    limit: bytes at which the present file is full, 0 for never; position: bytes in it
    log_fd, index_fd: the present file and what belongs to it; directory_fd: the log itself; -1 when closed
    """

    def __init__(self) -> None:
        self.limit = self.position = 0
        self.log_fd = self.index_fd = self.directory_fd = -1

    @classmethod
    def taken_over(cls, fields: dict) -> "OpenLog":
        """One that another process has opened: `fields` are all its own, with this process's numbers."""
        log = cls.__new__(cls)
        for name, value in fields.items():
            setattr(log, name, value)
        return log

    def __enter__(self) -> "OpenLog":
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    def full(self) -> bool:
        """True when the present file has passed its size and `rotate` is due."""
        return 0 < self.limit <= self.position

    def close(self) -> None:
        """Gives the descriptors back. A second call does nothing."""
        for fd in (self.log_fd, self.index_fd, self.directory_fd):
            if fd >= 0:
                os.close(fd)
        self.log_fd = self.index_fd = self.directory_fd = -1

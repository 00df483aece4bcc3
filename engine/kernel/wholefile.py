"""Writes a small file so that after a crash or a loss of power it is either complete and on the disk, or not changed at
all.

Keeps no state. It is meant for files of the data root that are written once: each write costs two fsyncs.
"""

import contextlib
import os


def write(path: str, text: str) -> None:
    """Put a file with this text in place of `path`; a crash, a loss of power or a full disk leaves the old file, or
    none.

    Raises OSError.
    """
    new = f"{path}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # it has been renamed already
            os.unlink(new)
        raise
    sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make the names in a directory durable (fsync(2)). Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

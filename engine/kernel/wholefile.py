"""Writes a small file so that after a crash or a loss of power it is either complete and on the disk, or not changed at
all.

Keeps no state. It is meant for files of the data root that are written once: each write costs two fsyncs, unless
the caller leaves them to a later `sync_all`.
"""

import contextlib
import os


def write(path: str, text: str, *, synced: bool = True) -> None:
    """Put a file with this text in place of `path`; a crash, a loss of power or a full disk leaves the old file, or
    none.

    synced: False for a file that `sync_all` is to make durable; until then a loss of power may leave it empty
    Raises OSError.
    """
    new = f"{path}.new"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            if synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # it has been renamed already
            os.unlink(new)
        raise
    if synced:
        sync_directory(os.path.dirname(path))


def sync_all(directory: str, but: str) -> None:
    """Make the files in a directory durable, and their names, but not files whose names begin so. Raises OSError."""
    with os.scandir(directory) as entries:
        for each in entries:
            if each.is_file(follow_symlinks=False) and not each.name.startswith(but):
                descriptor = os.open(each.path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
    sync_directory(directory)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable (fsync(2)). Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

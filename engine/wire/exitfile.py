"""The file in which a monitor leaves how its container ended, for a daemon that was not there to be told.

Written by the monitor, read by the daemon. It appears whole or not at all (write, rename); it is not synced, because
a power cut that takes it takes the whole exec root.
"""

import os

NAME = "exit"
_MAX = 4096


def write(exec_dir: str, content: bytes) -> None:
    """Put the encoded `Exited` message in place."""
    path = os.path.join(exec_dir, NAME)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
    os.rename(path + ".new", path)


def read(exec_dir: str) -> bytes | None:
    """The encoded message, or None when the container has left none."""
    try:
        descriptor = os.open(os.path.join(exec_dir, NAME), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, _MAX)
    finally:
        os.close(descriptor)

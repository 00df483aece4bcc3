"""The files in which a monitor leaves how its container ended, or why it crashed itself, for the daemon to read.

Written by the monitor, and by the resolver where it crashes; read by the daemon. Each appears whole or not at all
(write, rename); it is not synced, because a power cut that takes it takes the whole exec root.
"""

import os

EXIT = "exit"
CRASH = "crash"
RESOLVER_CRASH = "resolver.crash"
_MAX = 64 * 1024


def write(exec_dir: str, content: bytes, name: str = EXIT) -> None:
    """Put the encoded `Exited` message in place, or the text of a crash."""
    path = os.path.join(exec_dir, name)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)
    os.rename(path + ".new", path)


def read(exec_dir: str, name: str = EXIT) -> bytes | None:
    """What was written, or None when the monitor has left no such file."""
    try:
        descriptor = os.open(os.path.join(exec_dir, name), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return os.read(descriptor, _MAX)
    finally:
        os.close(descriptor)

"""Lets a thread enter another network namespace for the length of a `with` block, and always return.

Sockets and files of /proc/sys/net that are opened within belong to that namespace for good. So a usual visit opens what
it needs and leaves. Only the calling thread moves. Runs in the daemon's threads and in the resolver, whose process has
no logging.
"""

import contextlib
import os
from collections.abc import Iterator

from engine.kernel import syscalls

_LOST = 70


@contextlib.contextmanager
def entered(namespace: int) -> Iterator[None]:
    """Run the `with` block in the network namespace behind a descriptor. Raises OSError where it cannot be entered.

    A thread that could not return would do the host's work in a container's network. In that case the whole process
    ends, as if it were killed, and the next daemon continues.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.setns(namespace, syscalls.CLONE_NEWNET)
        try:
            yield
        finally:
            try:
                syscalls.setns(home, syscalls.CLONE_NEWNET)
            except OSError as error:
                os.write(2, f"a thread cannot leave a container's network: {error}\n".encode())
                os._exit(_LOST)
    finally:
        os.close(home)

"""Writes the security attributes of this very thread (proc_pid_attr(5)), by which the kernel's security modules work.

Runs in a process that is to become a container's. It never writes to a /proc that the container could have put there:
it mounts a procfs that no other process sees.
"""

import errno
import os
from collections.abc import Sequence

from engine.kernel import syscalls


def write(names: Sequence[str], text: str) -> bool:
    """Write to the first of these files of /proc/thread-self/attr that exists; False when none does. Raises OSError."""
    proc = _private_proc()
    try:
        for name in names:
            try:
                fd = os.open(f"thread-self/attr/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
            except FileNotFoundError:
                continue
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
            return True
    finally:
        os.close(proc)
    return False


def _private_proc() -> int:
    try:
        context = syscalls.fsopen("proc")
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # before Linux 5.2
    try:
        syscalls.fsconfig(context, syscalls.FSCONFIG_CMD_CREATE)
        return syscalls.fsmount(context, 0)
    finally:
        os.close(context)

"""Writes the security attributes of this very thread (proc_pid_attr(5)), by which the kernel's security modules work.

Runs in a process that is to become a container's. It never writes to a /proc that the container could have put there.
A start mounts a procfs that no other process sees. In a container that runs, and whose mounts are those of a user
namespace, the kernel mounts none (mount_namespaces(7)): some of the container's own /proc is masked. So an exec writes
before it enters the container, to the /proc of the engine.
"""

import errno
import os
from collections.abc import Sequence

from engine.kernel import syscalls

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def write(names: Sequence[str], text: str, *, outside: bool = False) -> bool:
    """Write to the first of these files of /proc/thread-self/attr that exists; False when none does. Raises OSError.

    outside: this process has entered no container yet, and its /proc is the engine's
    """
    proc = os.open("/proc", _PLACE) if outside else _private_proc()
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
        return os.open("/proc", _PLACE)  # before Linux 5.2
    try:
        syscalls.fsconfig(context, syscalls.FSCONFIG_CMD_CREATE)
        return syscalls.fsmount(context, 0)
    finally:
        os.close(context)

"""Puts a container's process under an AppArmor profile, on hosts that have AppArmor.

Runs in a process that is to become a container's, before it gives up its privileges. The kernel changes the profile at
execve, and a child that is forked before that inherits the request. It never writes to a /proc that the container could
have put there: it mounts a procfs that no other process sees.
"""

import errno
import os

from engine.errors import SystemFailure
from engine.kernel import syscalls

_FILES = ("thread-self/attr/apparmor/exec", "thread-self/attr/exec")  # the second before Linux 5.8


def change_on_exec(profile: str) -> None:
    """Make the next execve run under this profile, which the host has loaded. Raises SystemFailure, OSError."""
    proc = _private_proc()
    try:
        for name in _FILES:
            try:
                fd = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
            except FileNotFoundError:
                continue
            try:
                os.write(fd, f"exec {profile}".encode())
            except OSError as error:
                raise SystemFailure(f"apparmor failed to apply profile: {profile}: {error.strerror}") from error
            finally:
                os.close(fd)
            return
    finally:
        os.close(proc)
    raise SystemFailure("apparmor failed to apply profile: this kernel has no AppArmor")


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

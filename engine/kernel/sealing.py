"""Restarts the engine's program from a read-only mount, so that no process can write to the program file
(CVE-2019-5736).

Called once, first of all, by the process that is to be a daemon or a spawner. A process that joins a container's
namespaces is for a moment visible in the container, and a hostile container may get hold of the file that it runs, the
host's Python. So that file is one of a read-only mount that is attached nowhere: a descriptor opened through
/proc/PID/exe can never be written to.
"""

import errno
import os
import sys

from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # it loads ctypes, which a sealed program must do again by itself
    from engine.kernel import syscalls
else:
    syscalls = late("engine.kernel.syscalls")

# A kernel before 5.12, a user without the right to mount, or a seccomp profile around the engine: then the program runs
# unsealed.
_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL})
_EXE = "/proc/self/exe"


def seal() -> None:
    """Start this process's program anew from a read-only mount of its own; return if it is sealed, or cannot be.

    open_tree(2), mount_setattr(2), execveat(2). The process keeps its pid, arguments, environment and open streams.
    """
    if os.statvfs(_EXE).f_flag & os.ST_RDONLY:
        return
    try:
        tree = _copy()
        syscalls.mount_setattr(tree, 0, syscalls.MOUNT_ATTR_RDONLY)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        return
    os.execve(tree, sys.orig_argv, os.environ)


def _copy() -> int:
    """A descriptor of a detached mount of the program file. Raises OSError."""
    try:
        return syscalls.open_tree(-100, _EXE, syscalls.OPEN_TREE_CLONE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # The program was started before this mount namespace was made: its file belongs to a mount of another one.
    return syscalls.open_tree(-100, os.readlink(_EXE), syscalls.OPEN_TREE_CLONE)

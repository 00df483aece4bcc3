"""Restarts the engine's program from a read-only mount, so that no process can write to the program file
(CVE-2019-5736).

Called once, first of all, by the process that is to be a daemon or a spawner. A process that joins a container's
namespaces is for a moment visible in the container, and a hostile container may get hold of the file that it runs, the
host's Python. So that file is one of a read-only mount that is attached nowhere: a descriptor opened through
/proc/PID/exe can never be written to.

The new start does without Python's module `site`, whose work is done by then: it gets the list in which the first one
has found modules. What else the host's site-packages have Python load at each start (files `*.pth`) costs a third of
the interpreter's start or more, and would stay in the memory of all processes of the engine.
"""

import errno
import os
import sys
from collections.abc import Mapping, Sequence

from engine import origin
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # it loads ctypes, which a sealed program must do again by itself
    from engine.kernel import syscalls
else:
    syscalls = late("engine.kernel.syscalls")

# A kernel before 5.12, a user without the right to mount, or a seccomp profile around the engine: then the program runs
# unsealed.
_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL})
_EXE = "/proc/self/exe"
_PATH, _PATH_BEFORE = "PYTHONPATH", "ENGINE_PYTHONPATH_BEFORE"


def seal() -> None:
    """Start this process's program anew from a read-only mount of its own; return if it is sealed, or cannot be.

    open_tree(2), mount_setattr(2), execveat(2). The process keeps its pid, arguments, environment and open streams.
    """
    if os.statvfs(_EXE).f_flag & os.ST_RDONLY:
        _restore()
        return
    try:
        tree = _copy()
        syscalls.mount_setattr(tree, 0, syscalls.MOUNT_ATTR_RDONLY)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        _restore()
        return
    os.execve(tree, *without_site(sys.orig_argv, os.environ))


def _copy() -> int:
    """A descriptor of a detached mount of the program file. Raises OSError."""
    try:
        return syscalls.open_tree(-100, _EXE, syscalls.OPEN_TREE_CLONE)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    # The program was started before this mount namespace was made: its file belongs to a mount of another one.
    return syscalls.open_tree(-100, os.readlink(_EXE), syscalls.OPEN_TREE_CLONE)


def without_site(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of a start of Python for a program that seals itself, or is started sealed.

    It finds the modules that this process finds, in the same order.
    """
    environment = dict(environ)
    if sys.flags.ignore_environment or any(os.pathsep in each for each in sys.path):
        return [*arguments], environment
    environment.setdefault(_PATH_BEFORE, environment.get(_PATH, ""))
    environment[_PATH] = os.pathsep.join(dict.fromkeys(filter(None, (*sys.path, origin.root()))))
    return [arguments[0], "-S", *arguments[1:]], environment


def _restore() -> None:
    """Undo what `without_site` has changed, for the programs that this process starts in turn."""
    before = os.environ.pop(_PATH_BEFORE, None)
    if before is None:
        return
    sys.path[:] = dict.fromkeys(sys.path)
    if before:
        os.environ[_PATH] = before
    else:
        os.environ.pop(_PATH, None)

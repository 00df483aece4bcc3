"""Thaws, empties and removes the cgroups that a container has made below its own (CAP_SYS_ADMIN, a writable view).

Runs in the daemon. The container decides how deep they go, deeper than any path can be long: so each cgroup is opened
from the one above or below it, and one descriptor is open at a time. cgroups have no symbolic links and are never
moved.
"""

import errno
import os
import signal
from collections.abc import Callable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST = 100_000


def thaw(directory: str) -> None:
    """Thaw this cgroup and all below it; one that does not exist, or has no freezer, is fine. Raises OSError."""
    _walk(directory, _thaw, remove=False)


def cleared(directory: str) -> bool:
    """Kill the processes in this cgroup and below it and remove the cgroups below it; False while something is left."""
    return _walk(directory, _end, remove=True)


def _walk(directory: str, visit: Callable[[int], None], *, remove: bool) -> bool:
    """Visit a cgroup before those below it.

    remove: also remove those below it afterwards. If one cannot be removed, this returns False and the caller starts
        again
    """
    try:
        here = os.open(directory, _DIRECTORY)
    except FileNotFoundError:
        return True
    # For each cgroup on the way down, the ones in it that are still to be visited, the present one last.
    waiting: list[list[str]] = []
    try:
        visit(here)
        waiting.append(_below(here))
        for _ in range(_MOST):
            if waiting[-1]:
                try:
                    below = os.open(waiting[-1][-1], _DIRECTORY, dir_fd=here)
                except FileNotFoundError:
                    waiting[-1].pop()
                    continue
                os.close(here)
                here = below
                visit(here)
                waiting.append(_below(here))
                continue
            waiting.pop()
            if not waiting:
                return True
            above = os.open("..", _DIRECTORY, dir_fd=here)
            os.close(here)
            here = above
            name = waiting[-1].pop()
            if remove and not _removed(name, here):
                return False
        return False
    finally:
        os.close(here)


def _below(here: int) -> list[str]:
    with os.scandir(here) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _removed(name: str, here: int) -> bool:
    try:
        os.rmdir(name, dir_fd=here)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.ENOTEMPTY):
            raise
        return False
    return True


def _end(here: int) -> None:
    for pid in map(int, _read(here, "cgroup.procs").split()):
        if pid > 0:  # 0: a process that this PID namespace does not see
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended by itself meanwhile
                continue
    _thaw(here)


def _thaw(here: int) -> None:
    """Thaw the cgroup: version 1 keeps a signal from frozen processes, version 2 does not."""
    try:
        fd = os.open("freezer.state", os.O_WRONLY | os.O_CLOEXEC, dir_fd=here)
    except FileNotFoundError:
        return
    try:
        os.write(fd, b"THAWED")
    finally:
        os.close(fd)


def _read(here: int, name: str) -> bytes:
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=here)
    except FileNotFoundError:
        return b""
    with open(fd, "rb", buffering=0) as file:
        try:
            return file.readall() or b""
        except OSError as error:
            # EOPNOTSUPP: the processes of a threaded cgroup are listed above it; ENODEV: it was removed meanwhile.
            if error.errno not in (errno.EOPNOTSUPP, errno.ENODEV):
                raise
            return b""

"""Enters a running container's cgroup, or the cgroup below it into which the container has moved its process 1.

Runs in a joiner (`birth.join`), which enters by itself. A container whose view of the cgroups is writable (privileged,
as docker and systemd in a container need it) may divide its cgroup among cgroups of its own. Version 2 then lets no
process into the container's own cgroup (cgroups(7), "no internal processes"), so a newcomer goes where process 1 is.
"""

import errno
import os

from engine.kernel.beneath import open_beneath

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_DIVIDED = errno.EBUSY  # the cgroup has handed controllers on to cgroups below it
_TRIES = 10  # for a process 1 that moves on meanwhile


def enter(entry: str, first: int) -> None:
    """Move this process, which has one thread, into the cgroup of this file, or below it to where process 1 is.

    entry: path of the cgroup's file `cgroup.procs` (version 2) or `tasks` (version 1); first: the pid of process 1.
    Raises OSError.
    """
    own, name = os.path.split(entry)
    for tries in range(_TRIES):
        try:
            _write(os.open(entry, os.O_WRONLY | os.O_CLOEXEC))
        except OSError as error:
            below = _place_of(first, own) if error.errno == _DIVIDED else ""
            if not below:
                raise
        else:
            return
        try:
            place = os.open(own, _PLACE)
            try:
                _write(open_beneath(place, f"{below}/{name}", os.O_WRONLY | os.O_CLOEXEC))
            finally:
                os.close(place)
        except OSError as error:
            # Process 1 has left that cgroup, which is gone (ENOENT, ENODEV) or divided in its turn.
            if error.errno not in (_DIVIDED, errno.ENOENT, errno.ENODEV) or tries == _TRIES - 1:
                raise
        else:
            return


def below(own: str, listing: str) -> str:
    """Where in the cgroup with the directory `own` a process is: a path relative to it, empty for the cgroup itself.

    listing: the text of the process's /proc/PID/cgroup (cgroups(7)); of a process that is elsewhere it gives an empty
    text too
    """
    mark = f"/{os.path.basename(own)}/"
    unified = next((line[3:] for line in listing.splitlines() if line.startswith("0::")), "")
    return unified.partition(mark)[2]


def _place_of(pid: int, own: str) -> str:
    with open(f"/proc/{pid}/cgroup", "rb", buffering=0) as file:
        return below(own, os.fsdecode(file.readall() or b""))


def _write(fd: int) -> None:
    try:
        os.write(fd, b"0")
    finally:
        os.close(fd)

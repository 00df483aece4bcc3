"""Signals to a container's process 1, which is named by pid and start time, never by pid alone.

Runs in the daemon's threads. A pidfd is opened first and the start time compared through it, so that a pid that has
been given to another process in the meantime is never hit (pidfd_open(2), proc_pid_stat(5)).
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from engine.kernel import syscalls


@contextmanager
def opened(pid: int, pid_start: int) -> Iterator[int | None]:
    """A pidfd of exactly that process, the caller's for as long, or None when it is no more."""
    if pid <= 0:
        yield None
        return
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield pidfd if _start_of(pid) == pid_start else None
    finally:
        os.close(pidfd)


def alive(pidfd: int) -> bool:
    """Whether the process behind a pidfd has not ended yet."""
    ended = select.poll()
    ended.register(pidfd, select.POLLIN)
    return not ended.poll(0)


def _start_of(pid: int) -> int | None:
    try:
        return syscalls.process_start(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def send_signal(pid: int, pid_start: int, number: int) -> bool:
    """Send signal `number`; False when that process is no more."""
    with opened(pid, pid_start) as pidfd:
        if pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(pidfd, number)
        except ProcessLookupError:
            return False
        return True


def kill_and_wait(pid: int, pid_start: int, seconds: float) -> bool:
    """Kill the process and wait until it has ended; False when it had not after `seconds`."""
    with opened(pid, pid_start) as pidfd:
        if pidfd is None:
            return True
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        except ProcessLookupError:
            return True
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        return bool(ended.poll(seconds * 1000))

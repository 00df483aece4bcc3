"""Sending signals to a process that is named by its pid and start time, such as a container's process 1.

Runs in the daemon's threads. A pidfd is opened first, and then the start time is compared. So a signal never reaches
another process to which the pid was given in the meantime (pidfd_open(2), proc_pid_stat(5)).
"""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from engine.kernel import syscalls


@contextmanager
def opened(pid: int, pid_start: int) -> Iterator[int | None]:
    """A pidfd of exactly that process, closed when the context ends; None when the process is gone.

    pid_start: the start time as of proc_pid_stat(5)
    """
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
    """Send signal `number`; False when that process is gone."""
    with opened(pid, pid_start) as pidfd:
        if pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(pidfd, number)
        except ProcessLookupError:
            return False
        return True


def kill_and_wait(pid: int, pid_start: int, seconds: float) -> bool:
    """Kill the process with SIGKILL and wait until it has ended; False when it has not ended after `seconds`."""
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

"""What the sleeper does (`_muxer/process/sleeper.c` tells it whole), in Python, for a host where it was not built.

Runs in the one thread of the process that has opened the sockets. It neither accepts a connection nor reads of one.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGPWR)
_PASSED_ON = (signal.SIGHUP, signal.SIGUSR1)
_FIRST_PAUSE, _LONGEST_PAUSE, _LONG_RUN = 0.1, 30.0, 600.0  # seconds
_NOT_RUNNABLE = 126


def doze(
    sockets: Sequence[int], files: Sequence[str], command: Sequence[str], environment: Mapping[str, str], now: bool
) -> int:
    """Run the command for clients until a signal ends both; returns the exit status.

    sockets: descriptors from 3 on; files: `inode:path` of each socket that has a file; now: run it at once
    """
    status = _Dozing(sockets, command, environment).run(now)
    for each in files:
        inode, _, path = each.partition(":")
        try:
            if str(os.lstat(path).st_ino) == inode:
                os.unlink(path)
        except FileNotFoundError:
            pass  # somebody else has removed it
    return status


class _Dozing:
    def __init__(self, sockets: Sequence[int], command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._sockets = sockets
        self._command = [*command]
        self._environment = {name: value for name, value in environment.items() if not name.startswith("LISTEN_")}
        self._child = 0
        self._told: list[int] = []
        self._heard, bell = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        for number in (*_ENDING, *_PASSED_ON, signal.SIGCHLD):
            signal.signal(number, lambda told, _: self._told.append(told))

    def run(self, now: bool) -> int:
        """The loop; returns the exit status of the process."""
        pause: float | None = 0.0 if now else None
        following, began, ending = _FIRST_PAUSE, 0.0, False
        while True:
            if not self._wait(pause):
                self._child, began, pause = self._start(), time.monotonic(), None
            while self._told:
                told = self._told.pop(0)
                ending = ending or told in _ENDING
                if told == signal.SIGCHLD:
                    status = self._ended()
                    if status is None:
                        continue
                    if ending:
                        return status
                    if not status or time.monotonic() - began >= _LONG_RUN:
                        following = _FIRST_PAUSE
                    if status:
                        how = f"was ended by signal {status - 128}" if status > 128 else f"ended with status {status}"
                        after = f"{following:.1f}" if following < 1 else str(int(following))
                        print(f"engine listen: the daemon {how}, and is started anew in {after} s", file=sys.stderr)
                        pause, following = following, min(following * 2, _LONGEST_PAUSE)
                elif self._child:
                    os.kill(self._child, told)
                elif told == signal.SIGPWR:
                    self._child = self._start(power=True)
                elif ending:
                    return 0

    def _wait(self, pause: float | None) -> bool:
        """Wait; False when the command is to be run: the pause is over, or a client has connected."""
        if self._told:
            return True
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        for each in self._sockets if not self._child and pause is None else ():
            poll.register(each, select.POLLIN)
        told = poll.poll(None if self._child or pause is None else pause * 1000)
        heard = any(descriptor == self._heard for descriptor, _ in told)
        if heard:
            os.read(self._heard, 4096)
        return heard or bool(self._told)

    def _start(self, power: bool = False) -> int:
        """Run the command. power: it finds SIGPWR pending"""
        child = os.fork()
        if child:
            return child
        try:
            signal.set_wakeup_fd(-1)
            for number in (*_ENDING, *_PASSED_ON, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            if power:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPWR})
                os.kill(os.getpid(), signal.SIGPWR)
            given = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(self._sockets))}
            os.execve(self._command[0], self._command, self._environment | given)
        except OSError as error:
            print(f"engine listen: the daemon cannot be started: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(_NOT_RUNNABLE)

    def _ended(self) -> int | None:
        """The exit status of the command if it has ended."""
        if not self._child:
            return None
        pid, status = os.waitpid(self._child, os.WNOHANG)
        if not pid:
            return None
        self._child = 0
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code

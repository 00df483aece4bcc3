"""Waits for the signals that end the daemon, or have it read its settings anew.

Used by the main thread, before there is another one. The signals are blocked in every thread, and a descriptor tells of
them (signalfd(2)). `signal.sigtimedwait` is no way: when the handler of another signal is still at work at the end of
the time, Python returns a signal that nobody has sent.
"""

import os
import select
import signal
import sys

from engine.kernel import syscalls

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPWR)
_SIZE = 128
"""Of a struct signalfd_siginfo, whose first four bytes are the signal's number."""


class Awaited:
    """These signals, which nothing else takes from now on. Threads that are made later inherit that."""

    def __init__(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self._fd = syscalls.signalfd(_SIGNALS)

    def next(self, seconds: float | None = None) -> int:
        """The number of the next signal, waited for without an end or for so long; 0 when none has come.

        Meanwhile the handlers of other signals run.
        """
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(None if seconds is None else seconds * 1000):
            return 0
        return int.from_bytes(os.read(self._fd, _SIZE)[:4], sys.byteorder)

"""Waits for the signals that end the daemon, or have it read its settings anew.

Used by the main thread. The signals are blocked in every thread: one that did not block them would take them, and that
would be the daemon's sudden end. A descriptor tells of them (signalfd(2)). `signal.sigtimedwait` is no way: when the
handler of another signal is still at work at the end of the time, Python returns a signal that nobody has sent.
"""

import os
import select
import signal
import sys
import time

from engine.kernel import syscalls

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPWR)
_SIZE = 128
"""Of a struct signalfd_siginfo, whose first four bytes are the signal's number."""


def block() -> None:
    """Block the signals; to be called before there is another thread, since threads inherit that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


class Awaited:
    """These signals, which nothing else takes from now on."""

    def __init__(self) -> None:
        block()
        self._told = syscalls.signalfd(_SIGNALS)
        # Handlers run in this thread, once it goes on. A signal that came before it began to wait, or that the kernel
        # gave to another thread, does not end the wait. So Python writes a byte for each.
        self._other, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def next(self, seconds: float | None = None) -> int:
        """The number of the next signal, waited for without an end or for so long; 0 when none has come.

        Meanwhile the handlers of other signals run.
        """
        latest = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        for descriptor in (self._told, self._other):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poll.poll(None if latest is None else max(latest - time.monotonic(), 0) * 1000)]
            if self._told in ready:
                return int.from_bytes(os.read(self._told, _SIZE)[:4], sys.byteorder)
            if not ready:
                return 0
            os.read(self._other, _SIZE)

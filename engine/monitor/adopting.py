"""Those who wait for a container's end, as its monitor sees them: when it answers them itself, and when it does not.

Runs in the monitor's one thread. Why a monitor has them at all is told in `engine.monitor.waiters`.
"""

import os

from engine.monitor.contract import Pump, Waiters
from engine.wire import endpoint, waits
from engine.wire.schema import Exited


class Kept:
    """Those who wait for the container's end; nothing is made for them before the first has come."""

    def __init__(self, pump: Pump, make: type[Waiters], kept: Waiters | None = None) -> None:
        self._pump = pump
        self._make = make
        self._kept = kept

    def __len__(self) -> int:
        return len(self._kept) if self._kept is not None else 0

    @property
    def fd(self) -> int:
        """What is readable when one of them has hung up; -1 before the first has come."""
        return self._kept.fd if self._kept is not None else -1

    def take(self, datagram: bytes, fd: int) -> None:
        """Keep one more; where there is no room for it, it has the daemon alone."""
        try:
            if self._kept is None:
                self._kept = self._make()
                self._pump.watch(self._kept.fd)
            self._kept.take(datagram, fd)
        except (OSError, ValueError):
            os.close(fd)

    def hear(self, word: bytes, datagram: bytes, ended: Exited | None) -> None:
        """What the daemon says of them, once somebody waits."""
        if self._kept is None:
            return
        if word == waits.ANSWERED:
            self._kept.answered(datagram)
        elif ended is not None:
            self._kept.answer(ended.exit_code, word == waits.REMOVED)

    def look(self) -> None:
        """Forget those who have hung up."""
        if self._kept is not None:
            self._kept.look()

    def lose_daemon(self, ended: Exited | None, exec_dir: str) -> None:
        """There is no daemon to answer them: once the container has ended, they are answered here.

        Who waits for the removal waits for the next daemon, which sees to that; unless it could not find this monitor.
        """
        if self._kept is None:
            return
        self._kept.orphan()
        if ended is not None:
            hidden = not exec_dir or not os.path.lexists(os.path.join(exec_dir, endpoint.NAME))
            self._kept.answer(ended.exit_code, hidden)

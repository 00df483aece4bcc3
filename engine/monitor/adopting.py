"""When a monitor itself answers the clients that wait for its container's end, instead of leaving that to the daemon.

Runs in the monitor's one thread. `engine.monitor.waiters` tells why a monitor holds these clients' connections at all.
"""

import os

from engine.monitor.contract import Pump, Waiters
from engine.wire import endpoint, waits
from engine.wire.schema import Exited


class Kept:
    """The clients that wait for the container's end. No `Waiters` object is made before the first of them has come."""

    def __init__(self, pump: Pump, make: type[Waiters]) -> None:
        self._pump = pump
        self._make = make
        self._kept: Waiters | None = None

    def __len__(self) -> int:
        return len(self._kept) if self._kept is not None else 0

    @property
    def fd(self) -> int:
        """The descriptor that is readable when a waiting client has hung up; -1 before the first client has come."""
        return self._kept.fd if self._kept is not None else -1

    def take(self, datagram: bytes, fd: int) -> None:
        """Keep one more waiting client. If the monitor cannot keep it, its connection is closed here.

        The daemon has that connection too, and is then the only one that can answer the client.
        """
        try:
            if self._kept is None:
                self._kept = self._make()
                self._pump.watch(self._kept.fd)
            self._kept.take(datagram, fd)
        except (OSError, ValueError):
            os.close(fd)

    def hear(self, word: bytes, datagram: bytes, ended: Exited | None) -> None:
        """Act on a word of the daemon about the waiting clients (`engine.wire.waits`).

        Nothing happens while nobody waits.
        """
        if self._kept is None:
            return
        if word == waits.ANSWERED:
            self._kept.answered(datagram)
        elif ended is not None:
            self._kept.answer(ended.exit_code, word == waits.REMOVED)

    def look(self) -> None:
        """Forget the clients that have hung up."""
        if self._kept is not None:
            self._kept.look()

    def lose_daemon(self, ended: Exited | None, exec_dir: str) -> None:
        """The daemon has gone, so it cannot answer the clients. If the container has ended, they are answered here.

        A client that waits for the removal is left to the next daemon, which removes the container. It is answered here
        only if the next daemon could not find this monitor, because its socket is not in the exec directory.
        """
        if self._kept is None:
            return
        self._kept.orphan()
        if ended is not None:
            hidden = not exec_dir or not os.path.lexists(os.path.join(exec_dir, endpoint.NAME))
            self._kept.answer(ended.exit_code, hidden)

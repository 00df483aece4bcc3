"""Stands for the cgroups of a host that has none: it limits, counts, freezes and guards nothing, and says so.

Runs in the daemon, through `cgroups.detect`, on a host where no hierarchy is mounted at /sys/fs/cgroup. Containers run
there without limits. `security.lacking` takes the rights from them that only a cgroup can keep in bounds.
"""

import errno

from engine.errors import SystemFailure
from engine.kernel import userns
from engine.sandbox.cgroups.hierarchy import PARENT, Cgroups
from engine.sandbox.spec import Limits


class NoCgroups(Cgroups):
    """No hierarchy at all: no container has a directory in it."""

    holds_processes = False

    def __init__(self, root: str) -> None:
        """root: where a hierarchy was looked for."""
        super().__init__(root, frozenset(), frozenset())

    @property
    def guards_devices(self) -> bool:
        """Never: only a cgroup can."""
        return False

    def directories(self, id: str, parent: str = PARENT) -> tuple[str, ...]:
        """None."""
        return ()

    def entries(self, id: str, parent: str = PARENT, *, running: bool = False) -> tuple[str, ...]:
        """None: process 1 stays where it is."""
        return ()

    def oom_killed(self, id: str, parent: str = PARENT) -> bool:
        """Never: nothing here has a limit, and nobody counts."""
        return False

    def _create(self, id: str, limits: Limits, parent: str, devices: tuple[str, ...] | None, pid: int) -> None:
        """There is nothing to make: `fitting` leaves no limit."""

    def _update(self, id: str, limits: Limits, parent: str) -> None:
        """There is nothing to change: `fitting` leaves no limit."""

    def _freeze(self, id: str, parent: str) -> None:
        where = "is mounted at" if userns.is_hosts() else "is this user's at"
        raise OSError(errno.EOPNOTSUPP, f"only a cgroup can stop processes, and none {where} {self.root}")

    def _failure(self, id: str, parent: str, error: OSError) -> SystemFailure:
        return SystemFailure(error.strerror)

    def _thaw(self, id: str, parent: str) -> None:
        """Nothing is ever frozen here."""

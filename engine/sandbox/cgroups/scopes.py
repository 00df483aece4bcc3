"""Cgroups version 2 on a host that runs systemd: each container is a scope, which systemd makes at a request.

Runs in the daemon, through `cgroups.detect`. A parent that is the name of a slice is systemd's; a parent that is a path
is made as `v2` does, whichever the driver is: so a daemon knows the containers that another daemon has started with the
other driver. A scope needs a process to begin with: it is made when init exists, and systemd moves init into it while
init makes its mounts. So init does not enter by itself. The scope is the container's to divide (Delegate): below it
systemd changes nothing, and it leaves alone the program that guards the devices, because it has none of its own
(DevicePolicy stays `auto`). It removes the cgroup, and forgets the scope, when no process is left. Here nothing waits
for systemd but `begin`, `create`, `update` and `remove`.

A user's own manager has a part of the hierarchy, which systemd has given to the user with some of the controllers. Its
slices are below that part. No other cgroup can be made there, so a parent is always a slice.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.errors import SystemFailure
from engine.sandbox.cgroups import properties, slices, subtree
from engine.sandbox.cgroups.hierarchy import PARENT, read, wait_until
from engine.sandbox.cgroups.killings import Killings
from engine.sandbox.cgroups.properties import Property
from engine.sandbox.cgroups.v2 import CgroupsV2
from engine.sandbox.spec import Limits

_ALWAYS: tuple[Property, ...] = (
    ("Delegate", "b", True),
    # With its usual dependencies a scope is ended as soon as the host goes down, before the daemon has a say.
    ("DefaultDependencies", "b", False),
    # A scope that has failed is forgotten too, so that its name is free for the next start.
    ("CollectMode", "s", "inactive-or-failed"),
    *((f"{name}Accounting", "b", True) for name in ("CPU", "Memory", "IO", "Tasks")),
)
_EMPTIED = 2.0
"""Seconds in which systemd removes the cgroup of a scope without processes by itself; usually it takes milliseconds."""


class Units(Protocol):
    """What is asked of systemd; the daemon's `runtime.units` does it."""

    def start(self, unit: str, properties: Sequence[Property], there: Callable[[], bool]) -> None:
        """Begin to make a unit; there: whether it is as it is to be. Raises SystemFailure."""

    def wait(self, unit: str, there: Callable[[], bool]) -> None:
        """Return when it is there. Raises SystemFailure."""

    def change(self, unit: str, properties: Sequence[Property]) -> None:
        """Change properties of a unit. Raises SystemFailure."""

    def end(self, unit: str) -> None:
        """Have a unit stopped and forgotten; one that does not exist is fine. Raises SystemFailure."""

    def control_group(self) -> str:
        """The cgroup below which the manager has its slices: `/` for the host's own. Raises SystemFailure."""


class Scopes(CgroupsV2):
    """Version 2 on a host that runs systemd."""

    def __init__(
        self, root: str, controllers: frozenset[str], driver: str, units: Callable[[], Units], base: str = ""
    ) -> None:
        """driver: `systemd` or `cgroupfs`, for containers to come; units: called when systemd is to be asked.

        base: the cgroup of a user's manager, from which `controllers` are; empty for the host's
        """
        super().__init__(root, controllers)
        self.driver = driver
        self.slice = slices.OF_USER if base else slices.DEFAULT
        self._base = base
        self._units = units
        self._killings = Killings()

    def path_text(self, id: str, parent: str = PARENT) -> str:
        """The cgroup as /proc/PID/cgroup shows it."""
        if not slices.is_slice(parent):
            return super().path_text(id, parent)
        return f"{self._base}{slices.path(parent)}/{slices.scope(id)}"

    def leave(self, parent: str = PARENT) -> None:
        """Remove the parent itself, if no container is in it; none of them is a user's to remove."""
        if not self._base:
            super().leave(parent)

    def begins_with_process(self, parent: str) -> bool:
        """Whether this is a slice: a scope begins with a process."""
        return slices.is_slice(parent)

    def oom_killed(self, id: str, parent: str = PARENT) -> bool:
        """Whether the kernel has killed a process here for lack of memory; from its log, if the cgroup is gone."""
        if super().oom_killed(id, parent):
            return True
        gone = slices.is_slice(parent) and not os.path.exists(self.directories(id, parent)[0])
        return gone and self._killings.told(self.path_text(id, parent))

    def remove(self, id: str, parent: str = PARENT) -> None:
        """Kill what is left in the cgroup and remove it; one that does not exist is fine. Raises SystemFailure.

        A scope's own cgroup is systemd's to remove: systemd would take one that somebody else has removed for a running
            scope, if it has not heard yet that it is empty.
        """
        if slices.is_slice(parent):
            (directory,) = self.directories(id, parent)
            if not wait_until(lambda: _emptied(directory), _EMPTIED):
                # If systemd does not do it either, the cgroup is removed below, or that fails in words.
                with contextlib.suppress(SystemFailure):
                    self._units().end(slices.scope(id))
        super().remove(id, parent)

    def begin(self, id: str, limits: Limits, parent: str, pid: int) -> None:
        """Ask systemd for the scope around init."""
        path = self.path_text(id, parent)
        self._killings.forget(path)
        wanted: list[Property] = [
            ("Description", "s", f"container {id}"),
            ("Slice", "s", parent),
            ("PIDs", "au", [pid]),
            *_ALWAYS,
            *self._properties(limits),
        ]
        self._units().start(slices.scope(id), wanted, lambda: self._holds(path, pid))

    def _create(self, id: str, limits: Limits, parent: str, devices: tuple[str, ...] | None, pid: int) -> None:
        if not slices.is_slice(parent):
            super()._create(id, limits, parent, devices, pid)
            return
        path = self.path_text(id, parent)
        # The kernel's files have the limits, by the properties, before init is in the cgroup.
        self._units().wait(slices.scope(id), lambda: self._holds(path, pid))
        self._confine(id, f"{self.root}{path}", limits, devices)

    def _holds(self, path: str, pid: int) -> bool:
        try:
            return str(pid) in read(f"{self.root}{path}/cgroup.procs").split()
        except OSError:  # it is not there yet
            return False

    def _update(self, id: str, limits: Limits, parent: str) -> None:
        if slices.is_slice(parent):
            self._units().change(slices.scope(id), self._properties(limits))
        super()._update(id, limits, parent)

    def _properties(self, limits: Limits) -> list[Property]:
        weighed = bool(limits.blkio_weight)
        return properties.of_limits(limits, bfq=weighed and os.path.exists(f"{self.root}/system.slice/io.bfq.weight"))


def _emptied(directory: str) -> bool:
    with contextlib.suppress(OSError):  # what prevents it is told when the time is over
        subtree.cleared(directory)
    return not os.path.exists(directory)

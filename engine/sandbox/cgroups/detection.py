"""Detects which cgroups the host has, version 1, version 2, or both (hybrid, used as version 1), and who makes them."""

import os
from collections.abc import Callable

from engine.errors import SystemFailure
from engine.late import TYPE_CHECKING, late
from engine.sandbox.cgroups import v1, v2
from engine.sandbox.cgroups.hierarchy import Cgroups

if TYPE_CHECKING:  # for hosts that run systemd
    from engine.sandbox.cgroups import scopes
else:
    scopes = late("engine.sandbox.cgroups.scopes")

CGROUPFS, SYSTEMD = "cgroupfs", "systemd"
"""The drivers: the engine makes directories, or systemd makes scopes."""
BOOTED = "/run/systemd/system"
"""A directory that exists where systemd is the host's init, see sd_booted(3)."""


def detect(
    root: str = "/sys/fs/cgroup",
    *,
    driver: str = "",
    units: "Callable[[], scopes.Units] | None" = None,
    booted: str = BOOTED,
) -> Cgroups:
    """The cgroups that are mounted below `root`. Raises SystemFailure when there are none, or not for this driver.

    driver: for new containers; empty for `systemd` where systemd runs the host with version 2 alone, and else
        `cgroupfs`; units: called when systemd is to be asked, None where that cannot be; booted: a path, see `BOOTED`
    """
    if os.path.exists(f"{root}/cgroup.controllers"):
        found: Cgroups = v2.detect(root)
        if units is not None and os.path.isdir(booted) and not os.path.islink(booted):
            return scopes.Scopes(root, found.controllers, driver or SYSTEMD, units)
    else:
        found = v1.detect(root)
        if not found.controllers:
            raise SystemFailure(f"no cgroups are mounted below {root}")
    if driver == SYSTEMD:
        raise SystemFailure("the cgroup driver systemd needs a host that runs systemd with cgroups version 2 alone")
    return found

"""Detects which cgroups the host has (version 1, version 2, both, or none), and who makes them.

A hybrid host, which has both, is used as one with version 1.
"""

import logging
import os
from collections.abc import Callable

from engine.errors import SystemFailure
from engine.kernel import reasons, userns
from engine.late import TYPE_CHECKING, late
from engine.sandbox.cgroups import v1, v2
from engine.sandbox.cgroups.hierarchy import ROOT, Cgroups, read

if TYPE_CHECKING:  # the one for hosts without cgroups, the other for hosts that run systemd
    from engine.sandbox.cgroups import absent, scopes
else:
    absent = late("engine.sandbox.cgroups.absent")
    scopes = late("engine.sandbox.cgroups.scopes")

log = logging.getLogger(__name__)

CGROUPFS, SYSTEMD = "cgroupfs", "systemd"
"""The drivers: the engine makes directories, or systemd makes scopes."""
BOOTED = "/run/systemd/system"
"""A directory that exists where systemd is the host's init, see sd_booted(3)."""


def detect(
    root: str = ROOT,
    *,
    driver: str = "",
    units: "Callable[[], scopes.Units] | None" = None,
    booted: str = BOOTED,
) -> Cgroups:
    """The cgroups that are mounted below `root`; without any, what stands for none.

    driver: for new containers; empty for `systemd` where systemd runs the host with version 2 alone, and else
        `cgroupfs`; units: called when systemd is to be asked, None where that cannot be; booted: a path, see `BOOTED`
    A user's daemon has those of the user's own systemd, which is asked at once, or none.
    Raises SystemFailure for a driver that this host cannot have.
    """
    unified = os.path.exists(f"{root}/cgroup.controllers")
    if not unified or not os.path.isdir(booted) or os.path.islink(booted):
        units = None  # systemd does not run the host, or has not all of its cgroups
    if not userns.is_hosts() and not _writable(root):
        if units is not None and driver != CGROUPFS:
            try:
                return _users(root, units)
            except (OSError, SystemFailure) as error:
                if driver == SYSTEMD:
                    raise SystemFailure(f"the user's own systemd makes no cgroups: {reasons.whole(error)}") from error
                log.info("containers have no cgroups: %s", error)
        found: Cgroups = absent.NoCgroups(root)
    elif unified:
        if units is not None:
            controllers = frozenset(read(f"{root}/cgroup.controllers").split())
            return scopes.Scopes(root, controllers, driver or SYSTEMD, units)
        found = v2.detect(root)
    else:
        found = v1.detect(root) if os.path.isdir(root) else absent.NoCgroups(root)
        if not found.controllers:
            found = absent.NoCgroups(root)
    if driver == SYSTEMD:
        raise SystemFailure("the cgroup driver systemd needs a host that runs systemd with cgroups version 2 alone")
    return found


def _users(root: str, units: "Callable[[], scopes.Units]") -> Cgroups:
    """Those that the user's own systemd may make (Delegate in user@.service(5)). Raises OSError, SystemFailure."""
    base = units().control_group().rstrip("/")
    controllers = frozenset(read(f"{root}{base}/cgroup.controllers").split())
    if not os.access(f"{root}{base}/cgroup.procs", os.W_OK):
        raise SystemFailure(f"the cgroup {base} is not the user's")
    return scopes.Scopes(root, controllers, SYSTEMD, units, base)


def _writable(root: str) -> bool:
    """Whether this user may make cgroups in the root of version 2, or in each hierarchy of version 1."""
    if os.path.exists(f"{root}/cgroup.controllers"):
        return os.access(root, os.W_OK)
    hierarchies = v1.detect(root).places if os.path.isdir(root) else ()
    return bool(hierarchies) and all(os.access(place, os.W_OK) for place in hierarchies)

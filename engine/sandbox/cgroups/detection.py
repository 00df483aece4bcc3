"""Detects which cgroups the host has: version 1, version 2, both (hybrid, which is used as version 1), or none."""

import os

from engine.late import TYPE_CHECKING, late
from engine.sandbox.cgroups import v1, v2
from engine.sandbox.cgroups.hierarchy import ROOT, Cgroups

if TYPE_CHECKING:  # nearly every host has cgroups
    from engine.sandbox.cgroups import absent
else:
    absent = late("engine.sandbox.cgroups.absent")


def detect(root: str = ROOT) -> Cgroups:
    """The cgroups that are mounted below `root`; without any, what stands for none."""
    if os.path.exists(f"{root}/cgroup.controllers"):
        return v2.detect(root)
    if not os.path.isdir(root):
        return absent.NoCgroups(root)
    found = v1.detect(root)
    return found if found.controllers else absent.NoCgroups(root)

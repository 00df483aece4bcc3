"""Detects which cgroups the host has: version 1, version 2, or both (hybrid), which is used as version 1."""

import os

from engine.errors import SystemFailure
from engine.sandbox.cgroups import v1, v2
from engine.sandbox.cgroups.hierarchy import Cgroups


def detect(root: str = "/sys/fs/cgroup") -> Cgroups:
    """The cgroups that are mounted below `root`. Raises SystemFailure when there are none."""
    if os.path.exists(f"{root}/cgroup.controllers"):
        return v2.detect(root)
    found = v1.detect(root)
    if not found.controllers:
        raise SystemFailure(f"no cgroups are mounted below {root}")
    return found

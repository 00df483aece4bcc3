"""The parent of a container's cgroup: checks what a client or the settings ask for, and remembers what a run has.

Runs in the daemon's threads: `check` at create, `settle` at each start, `recall` where a run of an earlier daemon is
met. That daemon may have had another cgroup driver or another `--cgroup-parent`. So a run's parent stands in a file of
its exec directory, unless it is what any daemon with the driver cgroupfs takes for this container.
"""

import contextlib
import os

from engine.daemon.containers.record import Container
from engine.daemon.parts import ProcessParts
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.sandbox.cgroups import hierarchy, slices
from engine.sandbox.cgroups.detection import SYSTEMD

if TYPE_CHECKING:  # loaded with the first container
    from engine.daemon.containers.security import walls
else:
    walls = late("engine.daemon.containers.security.walls")

FILE = "cgroup-parent"
_SLICE = ".slice"
_LONGEST = 2048
_NO_SLICE = 'cgroup-parent for systemd cgroup should be a valid slice named as "xxx.slice"'


def check(parent: str, driver: str) -> None:
    """Raise Invalid for a parent that this driver cannot have; an empty one is the driver's own."""
    check_path(parent)
    if not parent:
        return
    if driver == SYSTEMD:
        if not slices.is_slice(parent):
            raise Invalid(_NO_SLICE)
    elif parent.endswith(_SLICE) and "/" not in parent:
        raise Invalid(f'cgroup-parent "{parent}" names a systemd slice: this engine\'s cgroup driver is cgroupfs')


def check_path(parent: str) -> None:
    """Raise Invalid for a parent that can be no path of a cgroup's."""
    if "\0" in parent or "\n" in parent or len(parent.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise Invalid(f"invalid cgroup-parent: {parent[:64]!r}")


def of(container: Container) -> str:
    """The parent of the cgroup of the container's present or last run, as `sandbox.cgroups` takes it."""
    return container.cgroup_parent or _plain(container.host_config["CgroupParent"])


def settle(engine: ProcessParts, container: Container, exec_dir: str) -> None:
    """Decide the parent for the run that is about to start, whose exec directory exists. Raises Invalid, OSError."""
    driver = engine.cgroups.driver
    asked = container.host_config["CgroupParent"] or engine.settings.cgroup_parent
    check(asked, driver)
    parent = asked or engine.cgroups.slice if driver == SYSTEMD else _plain(asked)
    if parent != _plain(container.host_config["CgroupParent"]):
        with open(os.path.join(exec_dir, FILE), "wb", buffering=0) as file:
            file.write(parent.encode())
    container.cgroup_parent = parent


def recall(container: Container, exec_dir: str) -> None:
    """Take the parent of a run that an earlier daemon has started. Raises OSError."""
    container.cgroup_parent = ""
    with contextlib.suppress(FileNotFoundError), open(os.path.join(exec_dir, FILE), "rb", buffering=0) as file:
        parent = (file.read(_LONGEST) or b"").decode("utf-8", "replace")
        if slices.is_slice(parent) or parent == walls.absolute(parent):  # otherwise that daemon was killed as it wrote
            container.cgroup_parent = parent


def _plain(asked: str) -> str:
    """The parent that cgroupfs takes: always an absolute path, and never above the hierarchy's root."""
    return walls.absolute(asked) if asked else hierarchy.PARENT

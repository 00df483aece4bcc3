"""Which guests are booted, and which checks are made in each."""

import ast
from dataclasses import dataclass
from pathlib import Path

VERSION_1 = "systemd.unified_cgroup_hierarchy=0"


@dataclass(frozen=True)
class Boot:
    """A guest, which may be booted several times on one disk.

    sittings: the checks of each boot, `MODULE.FUNCTION`; memory: in MB; kernel: arguments for it; short: it is part of
        every run in CI; clients: the share brings the docker CLI, compose and the SDK; machine: its architecture, empty
        for that of this host
    """

    name: str
    sittings: tuple[tuple[str, ...], ...]
    memory: int = 1024
    kernel: tuple[str, ...] = ()
    short: bool = False
    clients: bool = False
    machine: str = ""

    @property
    def checks(self) -> list[str]:
        """All of them, in order."""
        return [check for sitting in self.sittings for check in sitting]


def every(module: str) -> tuple[str, ...]:
    """All checks of a module, in the order in which they stand there."""
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text())
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return tuple(f"{module}.{name}" for name in names if name.startswith("check_"))


# The second check of the power-off is for the boot after it.
BEFORE, AFTER = every("check_power")
*AWAKE, ASLEEP_AFTER = every("check_asleep")
BOOTS = (
    Boot(
        "service",
        ((*every("check_service"), *every("check_apparmor"), *every("check_kernel"), BEFORE), (AFTER,)),
        short=True,
    ),
    Boot("scopes", ((*every("check_systemd"), *every("check_remapped")),), memory=2048),
    # Debian's kernel, its systemd and the checks' own Python take 100 MB of it. With less, the ten containers (55 MB)
    # leave too little for the files of running programs, which are then read again and again.
    Boot("small", (every("check_small"),), memory=208),
    Boot("no memory controller", (every("check_limits"),), kernel=("cgroup_disable=memory",)),
    Boot("hybrid", (every("check_limits"),), kernel=(VERSION_1,)),
    Boot("clients", (every("check_clients"),), memory=2048, clients=True),
    Boot("install", (every("check_install"),), memory=2048),
    Boot("asleep", (tuple(AWAKE), (ASLEEP_AFTER,))),
    Boot("user", (every("check_user"),), memory=2048),
    Boot("no modprobe", (every("check_modules"),)),
    Boot("SELinux", (every("check_selinux"),), kernel=("security=selinux", "selinux=1", "enforcing=0")),
    Boot("aarch64", ((*every("check_aarch64"), *every("check_limits")),), machine="aarch64"),
    Boot("version 1", (every("check_limits"),), kernel=(VERSION_1, "systemd.legacy_systemd_cgroup_controller=1")),
)

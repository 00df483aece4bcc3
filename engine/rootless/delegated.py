"""Has a user's own systemd take the process that is to be a user's daemon, where it was started in a login session.

Runs in that process before it moves (see `arrival`). systemd gives the user the cgroups below the user's manager
(`Delegate` of user@.service), and the kernel lets a process go from one cgroup to another only below one that is the
user's (cgroups(7), "Delegation containment"). The cgroup of a login is elsewhere: from there no command could enter a
container's cgroup. A daemon that the user's systemd has started is below the manager already.
"""

import os

from engine.daemon.runtime import units
from engine.errors import SystemFailure
from engine.sandbox.cgroups.detection import BOOTED

_OWN = "/proc/self/cgroup"
_SLICE = "app.slice"


def come() -> str:
    """Be below the manager, if systemd runs the host with cgroups v2 alone; why that cannot be, in words, if so."""
    if not os.path.isdir(BOOTED) or not _own():
        return ""
    name = f"engine-daemon-{os.getpid()}.scope"
    try:
        manager = units.ours()
        base = manager.control_group().rstrip("/")

        def there() -> bool:
            return f"{_own()}/".startswith(f"{base}/")

        if not there():
            wanted: tuple[units.Property, ...] = (
                ("Description", "s", "container engine of this user"),
                ("Slice", "s", _SLICE),
                ("PIDs", "au", [os.getpid()]),
                ("Delegate", "b", True),
                ("CollectMode", "s", "inactive-or-failed"),
            )
            manager.start(name, wanted, there)
            manager.wait(name, there)
    except SystemFailure as error:
        return str(error)
    return ""


def _own() -> str:
    """This process's cgroup of version 2; empty where version 1 is mounted too."""
    with open(_OWN) as file:
        lines = file.read().splitlines()
    return lines[0].removeprefix("0::") if len(lines) == 1 else ""

"""Puts a container's process under an AppArmor profile, on hosts that have AppArmor.

Runs in a process that is to become a container's, before it gives up its privileges. The kernel changes the profile at
execve, and a child that is forked before that inherits the request.
"""

from engine.errors import SystemFailure
from engine.kernel import reasons
from engine.sandbox import lsm

_FILES = ("apparmor/exec", "exec")  # the second before Linux 5.8


def change_on_exec(profile: str, *, outside: bool = False) -> None:
    """Make the next execve run under this profile, which the host has loaded. Raises SystemFailure.

    outside: as for `lsm.write`
    """
    try:
        written = lsm.write(_FILES, f"exec {profile}", outside=outside)
    except OSError as error:
        raise SystemFailure(f"apparmor failed to apply profile: {profile}: {reasons.of(error)}") from error
    if not written:
        raise SystemFailure("apparmor failed to apply profile: this kernel has no AppArmor")

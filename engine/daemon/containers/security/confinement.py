"""The AppArmor profile that containers run under: its text, whether this host can have it, and how it is loaded.

Runs in the daemon's request threads. The kernel takes a profile compiled, and only apparmor_parser(8) compiles one: it
is run once for each daemon, at the first start that needs the profile, and again if somebody has removed the profile.
On a host whose kernel has no AppArmor nothing is looked for. A profile that a client names is the host's own affair.
"""

import functools
import logging
import os
import threading

from engine.errors import SystemFailure
from engine.kernel import reasons, userns

log = logging.getLogger(__name__)

PROFILE = "engine-default"
DOCKERS = "docker-default"
"""The name of dockerd's profile: who asks for it on a host where it is not loaded gets this engine's."""

_ENABLED = "/sys/module/apparmor/parameters/enabled"
_LOADED = "/sys/kernel/security/apparmor/profiles"
_OWN = "/proc/self/attr/current"
_SETTINGS = "/etc/apparmor.d"
_PLACES = ("/usr/sbin", "/sbin", "/usr/bin", "/bin")
_SECONDS = 60
# Namespaces, capabilities and seccomp confine a container already. So the profile allows what they let through, and
# denies what is dangerous even with a capability more: mounts, and writing to the kernel's own files except to those of
# System V IPC, which a container has for itself.
_TEXT = """{tunables}
profile {name} flags=(attach_disconnected,mediate_deleted) {{
{abstractions}
  capability,
  file,
  network,
  umount,
  unix,

  # The host's processes, the engine's among them, may signal a container's; a container's its neighbours alone.
  signal (receive) peer=unconfined,
{daemon}  signal (send, receive) peer={name},
  ptrace (read, trace, readby, tracedby) peer={name},

  deny mount,

  deny /proc/* w,
  deny /proc/[^1-9s]*/** w,
  deny /proc/{{scsi,sysvipc}}/** w,
  deny /proc/sys/[^k]** w,
  deny /proc/sys/kernel/[^ms]** w,
  deny /proc/sys/kernel/m[^s]** w,
  deny /proc/sys/kernel/s[^eh]** w,
  deny /proc/sys/kernel/se[^m]** w,
  deny /proc/sys/kernel/sh[^m]** w,
  deny /proc/{{kcore,kmem,mem,sysrq-trigger}} rwklx,

  deny /sys/[^f]** wklx,
  deny /sys/f[^s]** wklx,
  deny /sys/fs/[^c]** wklx,
  deny /sys/fs/c[^g]** wklx,
  deny /sys/firmware/** rwklx,
  deny /sys/devices/virtual/powercap/** rwklx,
  deny /sys/kernel/security/** rwklx,
}}
"""
_ours = threading.Event()  # this daemon has loaded the profile, whose text may differ from an earlier daemon's


def kernel_has() -> bool:
    """Whether AppArmor is on in this kernel, for who may load a profile: not for root of a user namespace."""
    return userns.is_hosts() and _read(_ENABLED).startswith("Y") and os.path.exists(_LOADED)


def confines() -> bool:
    """Whether containers run under `PROFILE` unless they say otherwise."""
    return kernel_has() and (parser() is not None or is_loaded(PROFILE))


@functools.cache
def parser() -> str | None:
    """The path of apparmor_parser(8); None where the host has none."""
    programs = (f"{place}/apparmor_parser" for place in _PLACES)
    return next((program for program in programs if os.access(program, os.X_OK)), None)


def is_loaded(profile: str) -> bool:
    """Whether the kernel has this profile."""
    return any(line.startswith(f"{profile} ") for line in _read(_LOADED).splitlines())


def chosen(asked: str, privileged: bool) -> str:
    """The profile of a container; empty for none. asked: the client's `--security-opt apparmor=`, empty for none."""
    if not kernel_has():
        return ""  # docker asks for none either
    if asked and (asked != DOCKERS or is_loaded(DOCKERS)):
        return asked
    return PROFILE if confines() and not privileged else ""


def ready(profile: str) -> str:
    """Load the profile if it is the engine's own and not loaded yet; returns its name. Raises SystemFailure."""
    if profile == PROFILE and not (_ours.is_set() and is_loaded(PROFILE)) and parser() is not None:
        _load()
        _ours.set()
    return profile


def _load() -> None:
    import subprocess  # imported late: it is large, and needed once, where the host has AppArmor

    program = parser() or ""
    try:
        # -K: leave no compiled copy in the host's cache; -r: replace what an earlier daemon has loaded.
        done = subprocess.run([program, "-Kr"], input=text().encode(), capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SystemFailure(
            f"AppArmor is enabled and the profile {PROFILE} could not be loaded: {reasons.whole(error)}"
        ) from error
    if done.returncode:
        words = (done.stderr or done.stdout).decode("utf-8", "replace").strip()
        raise SystemFailure(f"AppArmor is enabled and the profile {PROFILE} could not be loaded: {words}")
    log.info("loaded the AppArmor profile %s", PROFILE)


def text() -> str:
    """The profile in the language of apparmor.d(5), with the host's own abstractions where it has them."""
    own = _read(_OWN).strip("\0\n").partition(" (")[0]
    return _TEXT.format(
        name=PROFILE,
        tunables=_included("tunables/global"),
        abstractions=_included("abstractions/base"),
        # A daemon that is confined itself, as in a container of its own.
        daemon=f'  signal (receive) peer="{own}",\n' if own not in ("", "unconfined") and '"' not in own else "",
    )


def _included(name: str) -> str:
    return f"#include <{name}>" if os.path.exists(f"{_SETTINGS}/{name}") else ""


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # the kernel has no AppArmor, or does not show it here: the same to a container
        return ""

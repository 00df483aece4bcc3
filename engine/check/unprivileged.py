"""Moves `engine check` of a user to where that user's daemon would be root, and says what is in the way of that.

The move is made once, before any probe, in the process of `engine check`: the children in which the probes run then
find what the daemon would find. For root nothing is moved, and the rows here are of no use.
"""

import os

from engine.check.isolation import words
from engine.check.row import MISSING, OK, UNUSED, Check, Found
from engine.errors import EngineError
from engine.kernel import syscalls, userns
from engine.rootless import home, outward, subordinate
from engine.settings import whose
from engine.settings.every import Settings

_SYSCTLS = {
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
    "user.max_user_namespaces": "0",
}
"""The settings of kernels that keep users from having namespaces, and the value with which each does."""
_ROOT = Found(UNUSED, "root's daemon needs none")
_moved: dict[str, str] = {}  # what `move` has found out: `trouble`, `ids`


def move() -> None:
    """Enter the namespaces that a daemon of this user would have; what goes wrong is the rows' to say."""
    uid = os.geteuid()
    if uid == 0:
        return
    os.environ[whose.OWNER] = str(uid)
    try:
        whose.check(uid, os.environ)
        _moved["ids"] = subordinate.enter()
        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
        home.follow_host()
    except (OSError, EngineError) as error:
        _moved["trouble"] = str(error)


def _is_roots() -> bool:
    return not whose.owner(os.environ, os.geteuid())


def _own(_: Settings) -> Found:
    if _is_roots():
        return _ROOT
    if "trouble" not in _moved:
        return Found(OK, "user, mount and network namespaces of the user's own can be made")
    closed = [f"{name}={value}" for name, value in _SYSCTLS.items() if words(_file(name)) == value]
    return Found(MISSING, f"{_moved['trouble']}{', with ' if closed else ''}{', '.join(closed)}")


def _file(name: str) -> str:
    return f"/proc/sys/{name.replace('.', '/')}"


def _ids(_: Settings) -> Found:
    if _is_roots():
        return _ROOT
    problem = _moved.get("ids") or _moved.get("trouble")
    return Found(MISSING, problem) if problem else Found(OK, f"{userns.ids():,} are mapped")


def _outside(_: Settings) -> Found:
    if _is_roots():
        return _ROOT
    found = outward.program()
    if found is None:
        return Found(MISSING, "neither pasta nor slirp4netns is installed")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return Found(MISSING, f"{found[1]}, but /dev/net/tun cannot be opened by this user")
    return Found(OK, found[1])


CHECKS = (
    Check(
        "namespaces of a user",
        _own,
        "A daemon of the user's own refuses to start.",
        "As root: sysctl -w kernel.unprivileged_userns_clone=1 (older Debian), sysctl -w"
        " kernel.apparmor_restrict_unprivileged_userns=0 or a profile with `userns,` for this Python (Ubuntu),"
        " sysctl -w user.max_user_namespaces=10000; log in with XDG_RUNTIME_DIR set",
        essential=True,
    ),
    Check(
        "subordinate ids",
        _ids,
        "All files of containers belong to the user, and their processes run as root of the namespace alone.",
        "As root: apt-get install uidmap; usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER",
    ),
    Check(
        "a user's way to the outside",
        _outside,
        "Containers of a user's daemon do not reach the outside; their published ports work.",
        "apt-get install passt (or slirp4netns); chmod 666 /dev/net/tun",
    ),
)

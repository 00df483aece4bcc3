"""Moves the process that is to be a user's daemon to where the user is root, before anything else of a daemon is made.

Runs in the first process, while it has one thread. It enters the user namespace, and a mount namespace in which the
program can be sealed. Its home, the mount and network namespaces of the containers, it only opens: `boot` forks the
spawner there, leaves one thread in the host's network, and moves then.
"""

import os
import sys

from engine.errors import SystemFailure
from engine.kernel import ownership, reasons, syscalls, userns
from engine.late import TYPE_CHECKING, late
from engine.settings import every, whose

if TYPE_CHECKING:  # for a process that moves
    from engine.rootless import delegated, home, subordinate
else:
    delegated = late("engine.rootless.delegated")
    home = late("engine.rootless.home")
    subordinate = late("engine.rootless.subordinate")


def needed() -> bool:
    """Whether this process has yet to move: it is neither root of the host nor root where it is."""
    if os.geteuid():
        return True
    if userns.is_hosts():
        os.environ.pop(whose.OWNER, None)  # root's own daemon is nobody else's
    return False


def enter(words: list[str]) -> None:
    """Move. words: the daemon's command line; the program is to be started anew by who calls.

    Raises Unavailable where the user may not have such namespaces, Invalid for a command line that is wrong,
    SystemFailure.
    """
    uid = os.geteuid()
    whose.check(uid, os.environ)
    settings = every.from_arguments(words)
    exec_root = settings.exec_root
    if problem := delegated.come():
        print(f"engine daemon: limits of containers are not kept: {problem}", file=sys.stderr)
    for kind, root, check in (("data", settings.data_root, ownership.reach), ("exec", exec_root, ownership.make)):
        try:
            check(root, 0o711)  # the record in the exec root names namespaces to enter
        except OSError as error:
            raise SystemFailure(f"the {kind} root cannot be used: {reasons.whole(error)}") from error
    found = home.find(exec_root)
    if "user" in found:
        syscalls.setns(found["user"], syscalls.CLONE_NEWUSER)
        os.close(found.pop("user"))
    elif problem := subordinate.enter():
        print(f"engine daemon: only one user id is mapped for containers: {problem}", file=sys.stderr)
    os.environ[whose.OWNER] = str(uid)
    where = home.Home(**found) if found else home.make()
    home.record(exec_root, where)
    syscalls.unshare(syscalls.CLONE_NEWNS)
    home.follow_host()
    where.hand_on()

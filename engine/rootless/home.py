"""The namespaces in which a user's daemon and its containers live: makes them, or finds those of an earlier daemon.

Runs in the process that is to be a user's daemon, while it has one thread. Whatever outlives a daemon (monitors, the
resolver, the proxy) stays in its namespaces and keeps them alive. So the daemon leaves a record of them in its exec
root, and the next one looks in /proc for a process that is still there. No process exists only to hold them.
"""

import contextlib
import json
import os

from engine.dataclass import dataclass
from engine.errors import SystemFailure
from engine.kernel import reasons, syscalls, wholefile
from engine.kernel.netlink import loopback
from engine.settings import whose

_RECORD = "namespaces"
_LARGEST = 4096
_KINDS = {"user": "user", "mount": "mnt", "network": "net"}


@dataclass(frozen=True, slots=True)
class Home:
    """Descriptors of the mount and the network namespace; the process is in their user namespace already."""

    mount: int
    network: int

    def enter(self) -> None:
        """Move the calling thread there; its working directory stays the same path. Raises OSError."""
        here = os.getcwd()
        syscalls.setns(self.network, syscalls.CLONE_NEWNET)
        syscalls.setns(self.mount, syscalls.CLONE_NEWNS)
        with contextlib.suppress(FileNotFoundError):
            os.chdir(here)

    def hand_on(self) -> None:
        """Let the program find it that this process executes next, see `handed_on`."""
        for descriptor in (self.mount, self.network):
            os.set_inheritable(descriptor, True)
        os.environ[whose.HOME] = f"{self.mount} {self.network}"


def handed_on() -> Home | None:
    """The home that the program before this one has left for it; None where its words name none."""
    words = os.environ.pop(whose.HOME, "").split()
    if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return None
    home = Home(int(words[0]), int(words[1]))
    try:
        for descriptor in (home.mount, home.network):
            os.set_inheritable(descriptor, False)
    except (OSError, OverflowError) as error:  # the variable is somebody else's
        raise SystemFailure(f"{whose.HOME}: {reasons.whole(error)}") from error
    return home


def find(exec_root: str) -> dict[str, int]:
    """Descriptors of the namespaces that a daemon before this one has recorded and that are still there, by kind.

    Either `user`, `mount` and `network`; or `user` alone, if only processes of containers are left; or nothing.
    """
    wanted = _recorded(exec_root)
    partly = 0
    for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if wanted else ():
        has = {kind: _mark(pid, kind) for kind in _KINDS}
        if has == wanted:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                return _opened(pid, wanted)
        elif has["user"] == wanted["user"]:
            partly = pid
    if partly:
        with contextlib.suppress(OSError):
            return _opened(partly, {"user": wanted["user"]})
    return {}


def _recorded(exec_root: str) -> dict[str, str]:
    try:
        with open(os.path.join(exec_root, _RECORD), "rb") as file:
            found = json.loads(file.read(_LARGEST))
    except (OSError, ValueError):  # no daemon was here since the boot
        return {}
    ours = isinstance(found, dict) and found.keys() == _KINDS.keys()
    return found if ours and all(isinstance(each, str) for each in found.values()) else {}


def _mark(pid: int | str, kind: str) -> str:
    """What names a namespace of a process while it exists; empty for a process of somebody else's."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{_KINDS[kind]}")
    except OSError:
        return ""


def _opened(pid: int, wanted: dict[str, str]) -> dict[str, int]:
    opened: dict[str, int] = {}
    try:
        for kind, mark in wanted.items():
            opened[kind] = os.open(f"/proc/{pid}/ns/{_KINDS[kind]}", os.O_RDONLY | os.O_CLOEXEC)
            if os.readlink(f"/proc/self/fd/{opened[kind]}") != mark:
                raise FileNotFoundError(pid)
    except OSError:
        for descriptor in opened.values():
            os.close(descriptor)
        raise
    return opened


def make() -> Home:
    """New mount and network namespaces, with the loopback interface up. Raises SystemFailure."""
    made, telling = os.pipe()
    waiting, release = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(made)
        os.close(release)
        _furnish(telling, waiting)
    os.close(telling)
    os.close(waiting)
    try:
        with open(made, "rb", closefd=False) as answer:
            problem = answer.readline().decode("utf-8", "replace").strip()
        if problem != "made":
            raise SystemFailure(f"no mount and network namespaces can be made: {problem or 'the process has ended'}")
        found = _opened(child, {kind: _mark(child, kind) for kind in ("mount", "network")})
        return Home(found["mount"], found["network"])
    finally:
        os.close(made)
        os.close(release)
        os.waitpid(child, 0)


def _furnish(telling: int, waiting: int) -> None:
    """Be the process that makes the namespaces, until they have been opened."""
    try:
        try:
            syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
            follow_host()
            loopback.set_up()
            os.write(telling, b"made\n")
        except OSError as error:
            os.write(telling, f"{error}; see: engine check\n".encode())
        os.read(waiting, 1)
    finally:
        os._exit(0)


def follow_host() -> None:
    """Let the host's mounts reach this mount namespace, and none of this one's reach the host. Raises OSError."""
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_SLAVE)


def record(exec_root: str, home: Home) -> None:
    """Leave the record for the next daemon. Raises SystemFailure."""
    marks = {"user": _mark("self", "user")}
    for kind, descriptor in (("mount", home.mount), ("network", home.network)):
        marks[kind] = os.readlink(f"/proc/self/fd/{descriptor}")
    try:
        wholefile.write(os.path.join(exec_root, _RECORD), json.dumps(marks))
    except OSError as error:
        raise SystemFailure(f"the exec root cannot be used: {reasons.whole(error)}") from error

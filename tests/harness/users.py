"""A machine with a user who exists nowhere else, and daemons that are this user's own.

Run by the test process, as root. The machine's mount namespace has an /etc/passwd, /etc/subuid and /etc/subgid of its
own, so the real ones are never touched. The user reaches Python, the engine and the unpacked programs at their usual
paths, even if they lie below a directory that is shut to others: there such a directory is covered by an empty one,
with what is needed bound into it.
"""

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path

from tests.harness.daemon import MUXER, PROJECT, PYTHON, Daemon
from tests.harness.namespaces import KEEPER, Namespaces

# Whether each user's daemon ends after a second with nothing to do, and is started by `engine listen`.
ASLEEP = os.environ.get("ENGINE_TEST_ASLEEP", "") == "1"
UID = 47_321
NAME = "engine-test"
SUBORDINATE = (1_500_000_000, 65_536)
"""The first of the user's subordinate ids, and how many there are."""
ADDRESS = "192.0.2.1"
PROGRAMS = ("newuidmap", "newgidmap")
_TUN = "/dev/net/tun"
_FILES = ("passwd", "group", "subuid", "subgid")


def available() -> bool:
    """Whether the programs are there that map subordinate ids."""
    return all(shutil.which(name) for name in PROGRAMS)


class UserMachine(Namespaces):
    """Namespaces in which the user exists. root: an empty directory for the machine's own files

    subordinate: the user has subordinate ids; connected: the machine has the address `ADDRESS` and a default route
    """

    def __init__(self, root: Path, subordinate: bool = True, connected: bool = False) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / "stash").mkdir()
        etc = root / "etc"
        etc.mkdir()
        first, count = SUBORDINATE
        more = {
            "passwd": f"{NAME}:x:{UID}:{UID}::/nowhere:/bin/sh\n",
            "group": f"{NAME}:x:{UID}:\n",
            **dict.fromkeys(("subuid", "subgid"), f"{NAME}:{first}:{count}\n" if subordinate else ""),
        }
        for name in _FILES:
            there = Path("/etc", name)
            shown = there.read_text() if name in ("passwd", "group") and there.exists() else ""
            (etc / name).write_text(shown + more[name])
        binds = [f"mount --bind {etc / name} /etc/{name}" for name in _FILES if Path("/etc", name).exists()]
        if Path(_TUN).exists():  # every user may open it, as on the usual hosts
            os.mknod(root / "tun", stat.S_IFCHR, os.stat(_TUN).st_rdev)
            (root / "tun").chmod(0o666)
            binds.append(f"mount --bind {root / 'tun'} {_TUN}")
        if connected:
            binds += [
                "ip link add there type veth peer name else",
                f"ip address add {ADDRESS}/24 dev there",
                "ip link set there up && ip link set else up",
                f"ip route add default via {ADDRESS.rpartition('.')[0]}.254",
            ]
        super().__init__(" && ".join(["umask 022", *_opened(root / "stash", _needed()), *binds, KEEPER]))


def _needed() -> list[Path]:
    """The directories that the user's daemon reads: Python, the engine, and the programs that were unpacked."""
    unpacked = [Path(found).parent for found in map(shutil.which, PROGRAMS) if found]
    every = {
        Path(os.path.realpath(each))
        for each in (sys.prefix, sys.base_prefix, Path(PYTHON).parents[1], PROJECT, *unpacked)
    }
    return sorted(path for path in every if not any(other in path.parents for other in every))


def _opened(stash: Path, needed: Iterable[Path]) -> list[str]:
    """The commands after which other users can read these directories, wherever they lie."""
    shut: dict[Path, list[Path]] = {}
    for path in needed:
        above = next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)
        if above is not None:
            shut.setdefault(above, []).append(path)
    commands = []
    for above, paths in shut.items():
        kept = {path: stash / path.as_posix().replace("/", "_") for path in paths}
        commands += [f"mkdir {at} && mount --bind {shlex.quote(str(path))} {at}" for path, at in kept.items()]
        commands.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(str(above))}")
        for path, at in kept.items():
            commands.append(f"mkdir -p {shlex.quote(str(path))} && mount --bind {at} {shlex.quote(str(path))}")
    return commands


class UserDaemon(Daemon):
    """`python -m engine daemon` as the user, with nothing said about its paths: they are the user's defaults."""

    def __init__(self, root: Path, machine: UserMachine, options: Sequence[str] = (), log_level: str = "debug"):
        super().__init__(root, machine, options, log_level)
        self.home, self.runtime = root / "home", root / "run"
        for directory in (self.home, self.runtime):
            directory.mkdir()
            directory.chmod(0o700)
            os.chown(directory, UID, UID)
        self.socket = self.runtime / "engine.sock"
        self.data_root = self.home / ".local" / "share" / "engine"
        self.exec_root = self.runtime / "engine"
        self.pidfile = self.runtime / "engine.pid"
        self.only: Path | None = None

    def have(self, *programs: str) -> None:
        """Let the daemon find no other programs than these and what is needed to start it."""
        self.only = self.root / "only"
        self.only.mkdir(mode=0o755)
        for name in (*programs, *PROGRAMS, "nsenter", "setpriv"):
            (self.only / name).symlink_to(shutil.which(name) or "/nowhere")

    def copies_layers(self) -> None:
        """As the base class says."""
        self.data_root.parent.mkdir(parents=True)
        super().copies_layers()
        for each in takewhile(self.home.__ne__, (self.data_root / "storage", *(self.data_root / "storage").parents)):
            os.chown(each, UID, UID)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the user, with a client's variables."""
        path = {"PATH": str(self.only)} if self.only else {}
        return {**super().environment, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime), **path}

    def arguments(self) -> list[str]:
        """The daemon's command line, behind what becomes the user; or that of the sleeper that starts it."""
        own = [PYTHON, "-m", self.program, "listen" if ASLEEP else "daemon", "--log-level", self.log_level]
        muxer = ("--muxer", MUXER) if MUXER and "--muxer" not in self.options else ()
        asleep = ("--idle-exit", "1") if ASLEEP and "--idle-exit" not in self.options else ()
        return self.as_user(*own, *muxer, *asleep, *self.options)

    @staticmethod
    def as_user(*argv: str) -> list[str]:
        """`argv`, to be run by the user; the process keeps its pid."""
        return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--", *argv]

"""A machine with a user who exists nowhere else, and daemons that are this user's own.

Run by the test process, as root. The machine's mount namespace has an /etc/passwd, /etc/subuid and /etc/subgid of its
own, so the real ones are never touched. The user reaches Python, the engine and the unpacked programs at their usual
paths, even if they lie below a directory that is shut to others: there such a directory is covered by an empty one,
with what is needed bound into it.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.harness.daemon import MUXER, PROJECT, Daemon
from tests.harness.namespaces import KEEPER, Namespaces

UID = 47_321
NAME = "engine-test"
SUBORDINATE = (1_500_000_000, 65_536)
"""The first of the user's subordinate ids, and how many there are."""
PROGRAMS = ("newuidmap", "newgidmap")
_FILES = ("passwd", "group", "subuid", "subgid")


def available() -> bool:
    """Whether the programs are there that map subordinate ids."""
    return all(shutil.which(name) for name in PROGRAMS)


class UserMachine(Namespaces):
    """Namespaces in which the user exists. root: an empty directory for the machine's own files

    subordinate: the user has subordinate ids
    """

    def __init__(self, root: Path, subordinate: bool = True) -> None:
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
        super().__init__(" && ".join(["umask 022", *_opened(root / "stash", _needed()), *binds, KEEPER]))


def _needed() -> list[Path]:
    """The directories that the user's daemon reads: Python, the engine, and the programs that were unpacked."""
    unpacked = [Path(found).parent for found in map(shutil.which, PROGRAMS) if found]
    every = {Path(os.path.realpath(each)) for each in (sys.prefix, sys.base_prefix, PROJECT, *unpacked)}
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

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the user, with a client's variables."""
        return {**super().environment, "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.runtime)}

    def arguments(self) -> list[str]:
        """The daemon's command line, behind what becomes the user."""
        own = [sys.executable, "-m", self.program, "daemon", "--log-level", self.log_level]
        return self.as_user(
            *own, *(("--muxer", MUXER) if MUXER and "--muxer" not in self.options else ()), *self.options
        )

    @staticmethod
    def as_user(*argv: str) -> list[str]:
        """`argv`, to be run by the user; the process keeps its pid."""
        return ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups", "--", *argv]

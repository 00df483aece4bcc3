"""A directory in which each module has a namesake that tells of its import, and an engine that is started there.

A user may stand in a directory of somebody else's. Nothing that lies there is to be executed.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from engine.client import verbtable
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World
from tests.harness.sleeping import Listening, until

_PACKAGES = ("engine", "_muxer", "json", "sqlite3", "http", "logging", "tests")
_MODULES = (
    *("sitecustomize", "usercustomize", "socket", "subprocess", "tempfile", "_cffi_backend", "_native", "ziglang"),
    *("struct", "threading", "urllib", "ssl", "hashlib", "shutil", "__main__", "runpy", "zipimport"),
)
_TOLD = "sprung"
_TOOLS = (
    *(("check",), ("install-units", "--show"), ("inspect-processes",), ("demo",), ("--version",)),
    *(
        ("migrate", "--help"),
        ("bundle", "--help"),
        ("listen", "--help"),
        ("daemon", "--help"),
        ("daemon", "--validate"),
    ),
)


class Trapped(Daemon):
    """A daemon that is started among traps, by a program that need not be in the tree; words: what runs `engine`"""

    words: Sequence[str] = ()

    @property
    def environment(self) -> dict[str, str]:
        """Nothing in it leads to the tree of the tests."""
        return {name: value for name, value in super().environment.items() if name != "PYTHONPATH"}

    @property
    def place(self) -> Path:
        """Where it stands."""
        return self.root / "traps"

    def arguments(self) -> list[str]:
        """The daemon's command line."""
        _, _, _, *rest = super().arguments()
        return ["env", f"--chdir={self.place}", *self.words, *rest]

    def engine(self, *words: str) -> subprocess.CompletedProcess:
        """A verb, run among the traps."""
        return self.command(*self.namespaces.command(["env", f"--chdir={self.place}", *self.words, *words]))


def sprung(world: World, words: Sequence[str], every_verb: bool = False) -> set[str]:
    """The names of the modules that were executed among traps by an engine that does all that starts another process.

    words: what runs `engine`; every_verb: each verb of the client is started too
    """
    daemon = Trapped(world.directory(), world.namespaces, ("--idle-exit", "600"))
    daemon.words = words
    _lay(daemon.place)
    modules = {verb.module: (*verb.name.split(), "--help") for verb in verbtable.VERBS}  # a verb of each
    verbs = modules.values() if every_verb else ()
    for asked in (*_TOOLS, ("power-off", *daemon.arguments()[len(daemon.words) + 3 :]), *verbs):
        assert b"Traceback" not in daemon.engine(*asked).stderr, asked
    _sleep_and_wake(daemon)
    return _told(daemon.place)


def sprung_by_typing(place: Path) -> set[str]:
    """What `python3 -m engine` executes among traps; place: an empty directory."""
    _lay(place)
    subprocess.run([sys.executable, "-m", "engine", "--version"], cwd=place, capture_output=True)
    return _told(place)


def _sleep_and_wake(daemon: Trapped) -> None:
    """A daemon is started by a client, loses its spawner, is killed, and is started anew."""
    sleeping = Listening(daemon)
    try:
        daemon.import_busybox()
        for lost in ("spawner", "daemon"):
            assert daemon.engine("run", "--rm", "--network", "none", "busybox", "true").returncode == 0, daemon.log
            pid = int(daemon.pidfile.read_text())
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            os.kill(int(children[0]) if lost == "spawner" else pid, signal.SIGKILL)
        until(lambda: sleeping.pid not in (0, pid), "no daemon is started anew")
        assert daemon.engine("run", "--rm", "--network", "none", "busybox", "true").returncode == 0, daemon.log
        assert "the spawner has died; another is started" in daemon.log
    finally:
        sleeping.close()


def _lay(place: Path) -> None:
    """Make the traps."""
    files = {f"{name}/{file}.py": name for name in _PACKAGES for file in ("__init__", "__main__")}
    for file, name in (files | {f"{name}.py": name for name in _MODULES}).items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        told = f"open({str(place / _TOLD)!r}, 'a')"
        (place / file).write_text(f"with {told} as file:\n    file.write('{name}\\n')\n")


def _told(place: Path) -> set[str]:
    told = place / _TOLD
    return set(told.read_text().split()) if told.exists() else set()

"""The release before this one, unpacked and built, and a daemon that changes between its tree and this one.

Run by the test process. The tree is kept below the tests' cache by what its archive is, so it is built once a machine.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.__main__ import CACHE
from tests.harness import leaks
from tests.harness.daemon import PROJECT, Daemon

ARCHIVE = PROJECT / "tests/data/release-before.tar.xz"


def before() -> Path:
    """The tree of the release before."""
    with open(ARCHIVE, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    place = CACHE / f"release-{digest}"
    if not place.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=CACHE, prefix="release-"))
        try:
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(made, filter="data")
            subprocess.run([sys.executable, "-m", "_muxer.build"], cwd=made, check=True, capture_output=True)
            made.rename(place)
        except OSError:
            if not place.is_dir():  # else another worker has been quicker
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return place


def schema(tree: Path) -> int:
    """Which version a tree's database is of."""
    found = re.search(r"^VERSION = (\d+)$", (tree / "engine/daemon/store/database.py").read_text(), re.MULTILINE)
    return int(found[1])


class Changing(Daemon):
    """A daemon of `tree`, which may be another at the next start."""

    tree = PROJECT
    # The cgroups that were there when the release before came. It knows none in hierarchies without a controller of the
    # engine's, so those of the containers that end with it stay.
    before_it: frozenset[str] = frozenset()

    @property
    def environment(self) -> dict[str, str]:
        """Also its clients', who do not mind."""
        return {**super().environment, "PYTHONPATH": str(self.tree), "PYTHONNOUSERSITE": "1"}

    def arguments(self) -> list[str]:
        """The daemon's command line; where it is started is no place to import from."""
        python, *rest = super().arguments()
        return [python, "-P", *rest]

    def becomes(self, tree: Path) -> None:
        """Kill it, and start that of another tree on what it has left."""
        self.kill9()
        self.tree = tree
        self.start()

    def start(self, wait: bool = True) -> Daemon:
        """Start that of the tree, see `Daemon`."""
        runs = self.exec_root / "containers"
        if self.tree != PROJECT and runs.is_dir():
            known = set(os.listdir(runs))
            self.before_it |= {path for path in leaks.all_cgroups() if Path(path).name in known}
        return super().start(wait)

    def close(self) -> None:
        """Remove what is left, see `Daemon`, and the cgroups that the release before has left."""
        super().close()
        for path in self.before_it:
            with contextlib.suppress(FileNotFoundError):  # most are gone: this release has removed them
                os.rmdir(path)

    def runs(self) -> str:
        """The directory from which the running daemon has its modules."""
        with open(f"/proc/{self.pid}/environ") as file:
            variables = dict(each.partition("=")[::2] for each in file.read().split("\0"))
        return variables["PYTHONPATH"].partition(":")[0]  # a sealed daemon has the whole path there


def monitor_of(pid: int) -> int:
    """The process id of the monitor whose container's process 1 this is."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def exists(pid: int) -> bool:
    """Whether a process is there."""
    return os.path.exists(f"/proc/{pid}")

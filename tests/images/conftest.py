"""Registries in every dress, each a docker-registry of its own on a loopback port, and images made by umoci."""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.images import made
from tests.unit.tar.ways import way  # noqa: F401

# bcrypt of "secret", made with crypt(3): the registry takes no other kind.
HTPASSWD = "user:$2b$04$uoNZmNfWd6CAuclu7r/BceDyASBFtt7Yy8MHMS2.uznzF3byDsl1K\n"
_SECONDS = 60.0


def need(*programs: str) -> None:
    """Skip the test where a program is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}: apt-get install {program}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def registries(place: Path) -> Iterator[Callable[..., str]]:
    """Start docker-registries: make(more configuration, http settings) is the host:port of a new one."""
    need("docker-registry")
    with contextlib.ExitStack() as stack:

        def make(more: str = "", http: str = "") -> str:
            port = free_port()
            directory = place / f"registry-{port}"
            directory.mkdir()
            configuration = directory / "config.yml"
            configuration.write_text(
                # In memory: on a disk each blob that is pushed costs a flush.
                "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {inmemory: {}}\n"
                f"http:\n  addr: 127.0.0.1:{port}\n{http}{more}"
            )
            with open(directory / "log", "wb") as log:
                command = ["docker-registry", "serve", str(configuration)]
                process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            until_it_answers(process, f"{'https' if 'tls' in http else 'http'}://127.0.0.1:{port}/v2/")
            return f"127.0.0.1:{port}"

        yield make


@pytest.fixture
def make_registry(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Make registries of `registries`, which end with the test."""
    with registries(tmp_path) as make:
        yield make


def until_it_answers(process: subprocess.Popen, url: str) -> None:
    """Wait for the registry; any answer will do, one that its certificate is unknown too."""
    end = time.monotonic() + _SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except urllib.error.HTTPError:
            return
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                return
            time.sleep(0.02)  # there is no event to wait for: the port opens when it opens
    pytest.fail("docker-registry did not come up")


@pytest.fixture
def store(tmp_path: Path):
    """An image store with plain copies."""
    (tmp_path / "store").mkdir()
    return made.store(tmp_path / "store")


class Layout:
    """An OCI layout that umoci writes: each step changes the tree by hand and makes a layer of the difference."""

    def __init__(self, path: Path):
        self.path = path
        self.tree = path.parent / "bundle" / "rootfs"
        self._umoci("init", "--layout", str(path))
        self._umoci("new", "--image", f"{path}:made")

    def step(self, change: Callable[[Path], None]) -> None:
        """One more layer."""
        shutil.rmtree(self.tree.parent, ignore_errors=True)
        self._umoci("unpack", "--image", f"{self.path}:made", str(self.tree.parent))
        change(self.tree)
        self._umoci("repack", "--image", f"{self.path}:made", str(self.tree.parent))

    def copy(self, target: str, *options: str) -> None:
        """Write it elsewhere with skopeo."""
        command = ["skopeo", "copy", "--quiet", *options, f"oci:{self.path}:made", target]
        subprocess.run(command, check=True, capture_output=True)

    def _umoci(self, *arguments: str) -> None:
        subprocess.run(["umoci", *arguments], check=True, capture_output=True)


def three_layers() -> tuple[Callable[[Path], None], ...]:
    """The steps of an image of three layers, with links, modes, owners, deletions and a replaced directory."""

    def first(tree: Path) -> None:
        (tree / "bin").mkdir()
        (tree / "bin/tool").write_bytes(b"tool" * 1000)
        (tree / "bin/tool").chmod(0o4755)
        os.link(tree / "bin/tool", tree / "bin/linked")
        os.symlink("/bin/tool", tree / "absolute")
        (tree / "gone").mkdir()
        (tree / "gone/file").write_text("x")
        (tree / "replaced").mkdir()
        (tree / "replaced/old").write_text("x")
        (tree / "tmp").mkdir()
        (tree / "tmp").chmod(0o1777)
        os.chown(tree / "tmp", 1000, 1000)
        (tree / "file name with spaces and ünïcode").write_text("x")

    def second(tree: Path) -> None:
        shutil.rmtree(tree / "gone")
        shutil.rmtree(tree / "replaced")
        (tree / "replaced").write_text("a file now")

    def third(tree: Path) -> None:
        (tree / "bin/tool").unlink()
        (tree / "tmp/later").write_text("x")
        os.chown(tree / "tmp/later", 12, 34)

    return first, second, third


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An image of `three_layers`."""
    need("umoci", "skopeo")
    made = Layout(tmp_path / "layout")
    for step in three_layers():
        made.step(step)
    return made


def listing(tree: Path) -> dict[str, tuple]:
    """What a tree holds: path → kind, mode, owner, size of a file, target of a link, number of links, time."""
    found = {}
    # Not Path.rglob, which fails on links with very long targets before Python 3.11.4.
    for path in [Path(at, name) for at, *kinds in os.walk(tree) for names in kinds for name in names]:
        state = path.lstat()
        is_directory = stat.S_ISDIR(state.st_mode)
        found[str(path.relative_to(tree))] = (
            oct(state.st_mode),
            (state.st_uid, state.st_gid),
            0 if is_directory else state.st_size,
            path.readlink() if path.is_symlink() else None,
            0 if is_directory else state.st_nlink,
            0 if is_directory else int(state.st_mtime),
        )
    return found

"""The Debian package, installed by dpkg into a copy of this host's root, run there, and removed."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import traps
from tests.harness.daemon import PROJECT
from tests.harness.fixtures import World

pytestmark = [pytest.mark.root, pytest.mark.seldom]
# What is written goes to a directory of the test's; a container's layers need a file system that is no overlay.
INSIDE = """set -e
ip link set lo up
cd "$1"
mkdir upper work root
mount -t overlay -o lowerdir=/,upperdir=upper,workdir=work overlay root
mount --rbind /proc root/proc
mount --rbind /sys root/sys
mount --rbind /dev root/dev
mount -t tmpfs tmpfs root/tmp
mount -t tmpfs tmpfs root/run
cp engine.deb root/tmp
exec chroot root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec "$2"
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of this tree."""
    if shutil.which("dpkg") is None or subprocess.run(["dpkg", "-s", "python3"], capture_output=True).returncode:
        pytest.skip("this is no Debian, or one without its Python")
    path = tmp_path_factory.mktemp("deb") / "engine.deb"
    command = [sys.executable, "-m", "engine", "bundle", "--deb", "-o", path]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    return path


@pytest.fixture
def inside(package: Path, tmp_path: Path) -> Callable[[str], str]:
    """Runs a script as root of a copy of this host, where the package is in /tmp; what it says."""
    shutil.copy(package, tmp_path / "engine.deb")

    def run(script: str) -> str:
        command = [
            "unshare",
            "--mount",
            "--net",
            "--propagation",
            "private",
            "sh",
            "-c",
            INSIDE,
            "sh",
            tmp_path,
            script,
        ]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_it_is_installed_runs_containers_and_leaves_nothing(inside: Callable[[str], str]) -> None:
    said = inside(
        """dpkg -i /tmp/engine.deb >/dev/null
        dpkg --verify engine
        engine --version; engined --version; engine demo
        echo "units:"; ls /usr/lib/systemd/system/engine.* /usr/lib/systemd/user/engine.*
        files=$(dpkg -L engine | grep engine)
        dpkg -P engine >/dev/null
        ls -d $files 2>/dev/null || echo gone"""
    )
    assert said.startswith("engine ") and "hello from a container" in said
    units = [f"/usr/lib/systemd/{of}/engine.{kind}" for of in ("system", "user") for kind in ("service", "socket")]
    assert said.partition("units:\n")[2].splitlines() == [*units, "gone"]


def test_it_is_upgraded_in_place(inside: Callable[[str], str]) -> None:
    assert inside("dpkg -i /tmp/engine.deb >/dev/null; dpkg -i /tmp/engine.deb | grep -c '^Unpacking engine'") == "1\n"


def test_it_is_not_sprung(package: Path, world: World, tmp_path: Path) -> None:
    """`test_traps` says more."""
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    assert traps.sprung(world, [str(tmp_path / "usr/bin/engine")]) == set()


_NEWER = "RestartSteps|RestartMaxDelaySec"
"""Keys that systemd knows from 254 on: an older one ignores them, and restarts after the same pause each time."""


@pytest.mark.parametrize("of", ["system", "user"])
def test_the_units_are_whole(inside: Callable[[str], str], of: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    units = " ".join(f"/usr/lib/systemd/{of}/engine.{kind}" for kind in ("service", "socket"))
    command = f"XDG_RUNTIME_DIR=/run systemd-analyze verify --{of} --man=no {units} 2>&1"
    found = inside(f"dpkg -i /tmp/engine.deb >/dev/null; {command}").splitlines()
    assert [line for line in found if not re.search(f"Unknown key '({_NEWER})' .* ignoring", line)] == []


def test_it_is_the_same_when_it_is_built_again(package: Path, tmp_path: Path) -> None:
    """From what it installs, too: and another time is another package."""
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    command = [tmp_path / "usr/bin/engine", "bundle", "--deb", "-o", tmp_path / "again.deb"]
    environment = {"PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
    assert (tmp_path / "again.deb").read_bytes() == package.read_bytes()
    page = gzip.decompress((tmp_path / "usr/share/man/man1/engine.1.gz").read_bytes())
    assert b"engine bundle" in page

"""The demo, the daemon and `engine check` on hosts where something usual is missing: they work, or say why."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.fixtures import World

PROJECT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.root, pytest.mark.seldom]


def engine(script: str, *words: str, tree: Path = PROJECT, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `engine` in network and mount namespaces of its own in which the shell has run this script before."""
    lo = "ip link set lo up 2>/dev/null; "
    command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec", f'{lo}{script}\nexec "$@"', "sh"]
    environment = {name: value for name, value in os.environ.items() if name != "TMPDIR"} | more
    return subprocess.run(
        [*command, sys.executable, "-m", "engine", *words],
        cwd=tree,
        env={**environment, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def well(found: subprocess.CompletedProcess[str]) -> bool:
    """Whether that was a demo that worked."""
    whole = "stream 1: hello from a container" in found.stdout and "its directory is gone" in found.stdout
    return whole and found.returncode == 0 and not found.stderr


def words(found: subprocess.CompletedProcess[str]) -> str:
    """What it said as it ended with status 1: words, and no traceback."""
    assert found.returncode == 1 and "Traceback" not in found.stderr + found.stdout, found
    return found.stderr


READ_ONLY = "mount --bind {0} {0}; mount -o remount,bind,ro {0}\n"
WORKS = {
    "no temporary directory": "for d in /tmp /var/tmp; do mount -t tmpfs -o ro none $d; done\ncd /\n",
    "a read-only root": f"{READ_ONLY.format('/')}mount -t tmpfs -o ro none /tmp\n",
    "no cgroups": "umount -R /sys/fs/cgroup\n",
    "no /sys": "umount -R /sys\n",
    "no /etc": "mount -t tmpfs none /etc\n",
}


@pytest.mark.parametrize("missing", WORKS)
def test_the_demo_works_without(world: World, missing: str) -> None:
    found = engine(WORKS[missing], "demo")
    assert well(found), found


def test_the_demo_works_from_a_fresh_clone_that_cannot_be_written(tmp_path: Path) -> None:
    tree = tmp_path / "clone"
    for name in ("engine", "_muxer"):
        shutil.copytree(PROJECT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    found = engine(READ_ONLY.format(tree), "demo", tree=tree)
    assert well(found), found
    assert not list(tree.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("options", "path", "said"),
    [(["-S"], os.environ["PATH"], "No module named 'cffi'"), ([], "/nowhere", "It needs a C compiler")],
)
def test_without_what_builds_the_muxer_it_says_so(tmp_path: Path, options: list[str], path: str, said: str) -> None:
    built = shutil.ignore_patterns("*.so", "docker-init", "engine-sleeper")
    shutil.copytree(PROJECT / "_muxer", tmp_path / "_muxer", ignore=built)
    command = [sys.executable, *options, "-m", "_muxer.build"]
    environment = {**os.environ, "PATH": path}
    found = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert said in words(found) and found.stderr.startswith("The C muxer is not built: ")


NOTHING = "for d in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o ro none $d; done; cd /proc\n"
REFUSALS = {
    "no room at all for the demo": (NOTHING, ("demo",), "name one with TMPDIR=DIR"),
    "no place for sockets": (NOTHING, ("daemon",), "the exec root cannot be used: /run/engine: read-only file system"),
    "no /proc for the daemon": ("umount -l /proc\n", ("daemon",), "Is /proc mounted"),
    "no /proc for the demo": ("umount -l /proc\n", ("demo",), "Is /proc mounted"),
    "no /dev/null": ("mount -t tmpfs none /dev\n", ("demo",), "/dev/null: no such file or directory"),
}


@pytest.mark.parametrize("missing", REFUSALS)
def test_what_cannot_work_says_why(missing: str) -> None:
    script, arguments, said = REFUSALS[missing]
    assert said in words(engine(script, *arguments))


@pytest.mark.parametrize("script", [*WORKS.values(), *dict.fromkeys(script for script, _, _ in REFUSALS.values())])
def test_the_check_never_breaks(script: str) -> None:
    found = engine(script, "check")
    assert found.returncode in (0, 1) and not found.stderr, found
    assert "Containers can" in found.stdout and "unknown  " not in found.stdout, found.stdout

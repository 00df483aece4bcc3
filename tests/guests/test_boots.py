"""Boots each guest, and reports each check that was made in it as a test (see `boots`)."""

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.guests.boots import BOOTS, Boot
from tests.setup import compose, farguest, guest, zig
from tests.setup.booting import LONGEST, SHARE

PROJECT = Path(__file__).resolve().parents[2]
# What a boot and its checks take is bounded by LONGEST; the first check waits for the boot.
pytestmark = [pytest.mark.guest, pytest.mark.root, pytest.mark.timeout(3 * LONGEST)]
POSSIBLE = [boot for boot in BOOTS if boot.machine != platform.machine()]  # all guests have this host's otherwise
CHOSEN = [boot for boot in POSSIBLE if boot.short or os.environ.get("ENGINE_GUESTS") == "all"]
CASES = [(boot, check) for boot in CHOSEN for check in boot.checks]


@dataclass
class Outcome:
    """What came of a guest's boots: each check's line, the console, and how long each boot took to go down."""

    lines: dict[str, dict] = field(default_factory=dict)
    console: str = ""


def tree(share: Path) -> Path:
    """The project as it is in git and in the work tree, with the C muxer where this machine has built it."""
    copy = share / "engine"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    built = [path.relative_to(PROJECT) for path in (PROJECT / "_muxer").iterdir() if path.suffix == ".so"]
    for name in (*listed.stdout.splitlines(), *built, "_muxer/docker-init", "_muxer/engine-sleeper"):
        if (PROJECT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, copy / name)
    return copy


def translate(copy: Path, machine: str) -> None:
    """Put the C parts of another machine into a copy of the project."""
    if not zig.complete(CACHE):
        pytest.skip("needs Zig, which the set-up downloads")
    target = f"{machine}-linux-gnu"
    environment = {**os.environ, **zig.variables(CACHE)}
    subprocess.run([sys.executable, "-m", "_muxer.cross", target], cwd=copy, env=environment, check=True)
    for made in (copy / "_muxer/targets" / target).iterdir():
        shutil.move(made, copy / "_muxer" / made.name)


def clients(share: Path) -> None:
    """The clients that people have, as far as this machine has them; what their check misses, it says."""
    made = share / "clients"
    (made / "bin").mkdir(parents=True)
    (made / "cli-plugins").mkdir()
    if docker := shutil.which("docker"):
        shutil.copy(docker, made / "bin")
    if compose.complete(CACHE):
        shutil.copy(compose.place(CACHE), made / "cli-plugins")
    for name in ("docker", "requests", "urllib3", "charset_normalizer", "idna", "certifi"):
        package = Path(importlib.util.find_spec(name).origin).parent
        shutil.copytree(package, made / "python" / name, ignore=shutil.ignore_patterns("__pycache__"))


def boot(one: Boot, place: Path) -> Outcome:
    """Boot it for each sitting, on one disk."""
    outcome, share, log = Outcome(), place / "share", place / "console"
    share.mkdir()
    copy = tree(share)
    if one.machine:
        translate(copy, one.machine)
    if one.clients:
        clients(share)
    booted = (farguest if one.machine else guest).built(CACHE)
    disk = booted.disk(place / "disk")
    results = share / "results"
    for sitting in one.sittings:
        command = f"cp -r {SHARE}/engine /opt/" if sitting is one.sittings[0] else "true"
        checks = " ".join(sitting)
        (share / "run.sh").write_text(
            f"{command}\ncd /opt/engine && python3 -m tests.guests.inside {SHARE}/results {checks}\n"
        )
        booted.boot(disk, share, log, one.memory, one.kernel)
    outcome.console = log.read_text(errors="replace")
    if results.exists():
        outcome.lines = {line["check"]: line for line in map(json.loads, results.read_text().splitlines())}
    return outcome


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outcome]]:
    """What came of each guest that was booted so far."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the guest is built with a chroot")
    yield {}


@pytest.mark.parametrize(("one", "check"), CASES, ids=[f"{one.name}-{check.partition('.')[2]}" for one, check in CASES])
def test_in_the_guest(one: Boot, check: str, outcomes: dict[str, Outcome], tmp_path: Path) -> None:
    kind = farguest if one.machine else guest
    if not kind.complete(CACHE):
        pytest.skip(f"there is no guest: {kind.unable() or 'the set-up has not built it'}")
    if one.name not in outcomes:
        outcomes[one.name] = boot(one, tmp_path)
    line = outcomes[one.name].lines.get(check)
    assert line is not None, f"it was not made:\n{outcomes[one.name].console[-6000:]}"
    assert not line["error"], line["error"]

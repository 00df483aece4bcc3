"""Building with the real CLI and the real buildx: the command in a directory of its own, and what became of it."""

import subprocess
import uuid
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.harness.daemon import Daemon
from tests.setup import compose as built

LONG = 60


class Building:
    """`docker` with buildx, in a directory of its own; `it("build", ...)` is what became of the command.

    settings: the client's own; program: how `docker` is run
    """

    def __init__(self, daemon: Daemon, place: Path, settings: Path) -> None:
        self.place = place
        self.daemon = daemon
        self.settings = settings
        self.program: list[str] = ["docker"]
        self.environment = {**daemon.environment, "DOCKER_CONFIG": str(settings), "BUILDKIT_PROGRESS": "plain"}
        self.environment.pop("DOCKER_BUILDKIT", None)

    def __call__(self, *words: str, input: bytes = b"") -> subprocess.CompletedProcess:
        done = subprocess.run(
            [*self.program, *words],
            cwd=self.place,
            env=self.environment,
            input=input,
            capture_output=True,
            timeout=LONG,
        )
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    def begun(self, *words: str) -> subprocess.Popen:
        """A command that goes on."""
        return subprocess.Popen(
            [*self.program, *words],
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def write(self, *lines: str, name: str = "Dockerfile") -> None:
        """The Dockerfile, whose steps are nobody else's."""
        (self.place / name).write_text("\n".join((f"FROM busybox\nENV of={uuid.uuid4().hex}", *lines)) + "\n")


def told(done: subprocess.CompletedProcess, status: int = 0) -> str:
    """What buildx tells of a build, which ended with this status."""
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stderr


def building(daemon: Daemon, tmp_path: Path) -> Building:
    """buildx with an empty directory."""
    if not built.complete(CACHE):
        pytest.skip("needs buildx, which the set-up builds where it has Go")
    plugins = tmp_path / "settings" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").symlink_to(built.buildx(CACHE))
    (tmp_path / "context").mkdir()
    return Building(daemon, tmp_path / "context", plugins.parent)

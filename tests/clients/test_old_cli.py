"""The docker CLI of Debian 12, which has a BuildKit client of its own: POST /build with `version=2` and a session.

It takes BuildKit by itself, because the ping says so.
"""

import re
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.__main__ import LOCAL
from tests.harness.daemon import Daemon

OLD = LOCAL / "usr/bin/docker"
Command = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def old(daemon: Daemon, busybox: str, tmp_path: Path) -> Command:
    """The CLI, in an empty directory."""
    if not OLD.exists():
        pytest.skip("needs Debian's docker.io, which the set-up unpacks")
    environment = {**daemon.environment, "DOCKER_CONFIG": str(tmp_path / "settings"), "BUILDKIT_PROGRESS": "plain"}
    environment.pop("DOCKER_BUILDKIT", None)
    (tmp_path / "context").mkdir()

    def run(*words: str, input: bytes = b"") -> subprocess.CompletedProcess:
        return subprocess.run(
            [str(OLD), *words], cwd=tmp_path / "context", env=environment, input=input, capture_output=True, timeout=60
        )

    return run


def told(done: subprocess.CompletedProcess, status: int = 0) -> str:
    """What it tells of a build."""
    assert done.returncode == status, done
    return done.stderr.decode()


def test_it_builds_with_a_session(old: Command, tmp_path: Path) -> None:
    name = f"old-{uuid.uuid4().hex[:8]}"
    place = tmp_path / "context"
    (place / "f").write_text("a file\n")
    (place / "s").write_text("the word")
    (place / "Dockerfile").write_text(
        f"FROM busybox\nENV of={name}\nCOPY f /f\nRUN --mount=type=secret,id=s cat /f /run/secrets/s\n"
    )
    (place / ".dockerignore").write_text("s\n")
    output = told(old("build", "-t", name, "--secret", "id=s,src=s", "--iidfile", str(tmp_path / "id"), "."))
    assert re.search(r"^#\d+ \[3/3\] RUN", output, re.MULTILINE), output
    assert re.search(r"^#\d+ \d+\.\d+ a file$", output, re.MULTILINE), output
    assert "the word" in output
    again = told(old("build", "-t", name, "--secret", "id=s,src=s", "."))
    assert again.count("CACHED") == 3, again
    inspected = old("image", "inspect", "-f", "{{.Id}}", name)
    assert inspected.stdout.decode().strip() == (tmp_path / "id").read_text()
    old("rmi", "-f", name)


def test_a_failing_step_and_an_archive(old: Command, tmp_path: Path) -> None:
    (tmp_path / "context" / "Dockerfile").write_text(f"FROM busybox\nRUN echo {uuid.uuid4().hex}; exit 3\n")
    assert "exit code: 3" in told(old("build", "."), 1)
    word = uuid.uuid4().hex
    assert word in told(old("build", "-", input=f"FROM busybox\nRUN echo {word}\n".encode()))


def test_builder_prune_and_system_df(old: Command) -> None:
    told(old("builder", "prune", "-a", "-f"))
    assert b"Build Cache" in old("system", "df").stdout

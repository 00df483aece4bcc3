"""buildx with its driver docker-container: BuildKit's own daemon, in a privileged container of this engine.

Made by `python3 -m tests --long driver` alone (see conftest), because that daemon takes minutes to build.
"""

import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.clients.building import Building, told
from tests.clients.cli import said
from tests.clients.conftest import Client
from tests.setup.buildctl import DAEMON, PROGRAMS


def libraries(program: str) -> list[str]:
    """The files that the host's linker loads for a program."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


@pytest.fixture(scope="module")
def programs() -> list[Path]:
    """BuildKit's daemon and its client, of which the first is built now if it was not before."""
    if not DAEMON.complete(CACHE):
        with DAEMON.building(CACHE) as built:
            assert built() == ""
    return [DAEMON.place(CACHE, "buildkitd"), PROGRAMS.place(CACHE, "buildctl")]


@pytest.fixture
def buildkit(buildx: Building, docker: Client, tag: str, programs: list[Path]) -> str:
    """The name of an image with BuildKit's daemon, and what that needs."""
    runc = shutil.which("runc")
    if runc is None:
        pytest.skip("needs runc")
    for program in (*programs, runc):
        shutil.copy(program, buildx.place)
    lines = []
    for library in libraries(runc):
        shutil.copy(library, buildx.place)
        lines.append(f"COPY {Path(library).name} {library}")
    buildx.write("COPY buildkitd buildctl runc /usr/bin/", *lines, 'ENTRYPOINT ["buildkitd"]')
    told(buildx("build", "-t", tag, "."))
    return tag


@pytest.fixture
def far(buildx: Building, buildkit: str) -> Iterator[str]:
    """The name of a builder whose daemon runs in a container."""
    name = f"far-{uuid.uuid4().hex[:8]}"
    driver = ("--driver", "docker-container", "--driver-opt", f"image={buildkit}")
    told(buildx("buildx", "create", "--name", name, *driver, "--bootstrap"))
    yield name
    told(buildx("buildx", "rm", "-f", name))


def test_a_daemon_of_buildkit_in_a_container_builds(buildx: Building, docker: Client, far: str) -> None:
    """Its steps are containers in the container; what it has built is loaded into this engine, and runs."""
    assert "Status:                running" in told_of(buildx("buildx", "inspect", far))
    made = f"made-{far}"
    shutil.copy(shutil.which("busybox") or "", buildx.place / "busybox")
    (buildx.place / "Dockerfile").write_text(
        "FROM scratch\nCOPY busybox /bin/busybox\n"
        'RUN ["/bin/busybox", "sh", "-c", "echo $((6 * 7)) >/f"]\nCMD ["/bin/busybox", "cat", "/f"]\n'
    )
    output = told(buildx("buildx", "build", "--builder", far, "--load", "-t", made, "."))
    assert f'building with "{far}" instance using docker-container driver' in output
    assert said(docker("run", "--rm", made)) == "42\n"
    docker("rmi", made)


def test_it_goes_with_its_container_and_its_volume(buildx: Building, docker: Client, far: str) -> None:
    mine = f"name=buildx_buildkit_{far}"
    assert f"buildx_buildkit_{far}0" in said(docker("ps", "--filter", mine, "--format", "{{.Names}}"))
    told(buildx("buildx", "rm", far))
    assert said(docker("ps", "-aq", "--filter", mine)) == ""
    assert said(docker("volume", "ls", "-q", "--filter", mine)) == ""
    told(buildx("buildx", "create", "--name", far))  # for the fixture to remove


def told_of(done: subprocess.CompletedProcess) -> str:
    """What a command that has succeeded has printed."""
    assert done.returncode == 0, done.stderr
    return done.stdout

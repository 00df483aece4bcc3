"""What the tests with real clients share: the clients, or a skip with its reason."""

import contextlib
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.building import Building, building
from tests.harness import agents, compiled, users, web
from tests.harness.daemon import Daemon
from tests.harness.sleeping import until_asleep, woken

# What a long job makes alone (see tests.long).
JOBS = {"ENGINE_TEST_DRIVER": "test_buildx_driver.py", "ENGINE_TEST_PYTHON": "test_musl.py"}
collect_ignore = [file for variable, file in JOBS.items() if variable not in os.environ]


class Client:
    """A program that speaks to one daemon: `docker("ps", "-a", input=b"...")`, output as bytes."""

    def __init__(self, daemon: Daemon, *program: str) -> None:
        self.program = program
        self.environment = daemon.environment
        self._daemon = daemon

    def __call__(self, *words: str, **named: object) -> subprocess.CompletedProcess:
        return self._daemon.command(*self.program, *words, **named)


@pytest.fixture(scope="module", autouse=True)
def _from_its_sleep(request: pytest.FixtureRequest) -> None:
    """In a run with daemons that sleep, the first client of each file wakes one."""
    if users.ASLEEP:
        shared: Daemon = request.getfixturevalue("world").shared()
        until_asleep(shared, lambda: woken(shared.pid))


@pytest.fixture
def docker(daemon: Daemon, busybox: str) -> Client:
    """The docker CLI, with `busybox` there."""
    if shutil.which("docker") is None:
        pytest.skip("needs the docker CLI")
    return Client(daemon, "docker")


@pytest.fixture
def curl(daemon: Daemon, busybox: str) -> Client:
    """curl on the daemon's socket; it fails for an HTTP error and shows the body all the same."""
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    quiet = ("--silent", "--show-error", "--fail-with-body")
    return Client(daemon, "curl", *quiet, "--unix-socket", str(daemon.socket))


@pytest.fixture
def engine(daemon: Daemon, busybox: str) -> Client:
    """The engine's own client."""
    return Client(daemon, sys.executable, "-m", "engine")


@pytest.fixture
def sdk(daemon: Daemon, busybox: str) -> Iterator:
    """The docker SDK for Python, connected."""
    package = pytest.importorskip("docker", reason="needs the docker SDK: pip install docker")
    connected = package.DockerClient(base_url=daemon.url)
    yield connected
    connected.close()


@pytest.fixture
def served(world) -> Iterator:
    """A web server where the daemon is: served({path: (status, headers, body)}) is its URL."""
    with contextlib.ExitStack() as stack:
        yield lambda pages: stack.enter_context(web.serving(pages, world.namespaces.socket()))


@pytest.fixture
def buildx(daemon: Daemon, docker: Client, tmp_path: Path) -> Building:
    """`docker` with buildx, in an empty directory."""
    return building(daemon, tmp_path)


@pytest.fixture
def tag(docker: Client) -> Iterator[str]:
    """A name for an image that is gone after the test."""
    name = f"built-{uuid.uuid4().hex[:12]}"
    yield name
    docker("rmi", "-f", name)


@pytest.fixture(scope="session")
def asker(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A static program that asks an agent of ssh."""
    return compiled.static(agents.ASKER, tmp_path_factory.mktemp("asker"))

"""Compose 1.29 (Debian's) and v2 (built by the set-up), unmodified, for projects in one daemon.

Run by the test process. A test says what a project is; the clients are programs of their own.
"""

import contextlib
import functools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.__main__ import CACHE
from tests.harness import execs, hosts
from tests.harness.amounts import FULL
from tests.harness.daemon import Daemon
from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient
from tests.setup import compose as built

_LABEL = "com.docker.compose.project"
_SECONDS = 60.0


@dataclass(frozen=True)
class Compose:
    """A client with one project: `compose("up", "-d")` is what it said, and it must end with `status`.

    directory: where the project's file is; between: what stands between the words of a container's name
    """

    daemon: Daemon
    program: tuple[str, ...]
    between: str
    settings: dict[str, str]
    project: str = ""
    directory: Path = field(default_factory=Path)

    @property
    def environment(self) -> dict[str, str]:
        """Of the client."""
        return {**self.daemon.environment, **self.settings, "COMPOSE_PROJECT_NAME": self.project}

    def __call__(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [*self.program, *words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, (words, done.stdout, done.stderr)
        return done.stdout

    @contextlib.contextmanager
    def begun(self, *words: str) -> Iterator[subprocess.Popen]:
        """A client that goes on, whose output is read by the test; it is gone after the `with`."""
        client = subprocess.Popen(
            [*self.program, *words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        with client:
            try:
                yield client
            finally:
                client.kill()

    def name(self, service: str, number: int = 1) -> str:
        """A container's."""
        return self.between.join((self.project, service, str(number)))

    def inspect(self, service: str, number: int = 1) -> dict:
        """A container, as the API shows it."""
        return self.daemon.inspect(self.name(service, number))

    def within(self, service: str, script: str) -> str:
        """What a script in a service's container says, asked without the client, which takes half a second to start."""
        said = execs.run(self.daemon, self.name(service), "sh", "-c", script)
        assert said.code == 0, said
        return said.out

    def clear(self) -> None:
        """Remove all that the engine still has of the project, without the client."""
        own = self.own()
        for container in own["containers"]:
            self.daemon.remove(container)
        for noun in ("networks", "volumes"):
            for name in own[noun]:
                assert self.daemon.request("DELETE", f"/{noun}/{name}").status == 204

    def own(self) -> dict[str, list[str]]:
        """What the engine has of the project: the names of containers, networks, volumes."""
        query = "filters=" + quote(json.dumps({"label": [f"{_LABEL}={self.project}"]}))
        containers = self.daemon.request("GET", f"/containers/json?all=1&{query}").json()
        networks = self.daemon.request("GET", f"/networks?{query}").json()
        volumes = self.daemon.request("GET", f"/volumes?{query}").json()["Volumes"] or ()
        return {
            "containers": sorted(one["Names"][0].lstrip("/") for one in containers),
            "networks": sorted(one["Name"] for one in networks),
            "volumes": sorted(one["Name"] for one in volumes),
        }


@functools.cache
def _version(program: str) -> str:
    return subprocess.run([program, "version", "--short"], capture_output=True, text=True).stdout


def first(daemon: Daemon) -> Compose:
    """Compose 1.29."""
    program = shutil.which("docker-compose") or ""
    if not program or not _version(program).startswith("1."):
        pytest.skip("needs compose 1.29: Debian 12 has it as docker-compose")
    return Compose(daemon, (program,), "_", {"DOCKER_BUILDKIT": "0", "COMPOSE_DOCKER_CLI_BUILD": "0"})


def second(daemon: Daemon) -> Compose:
    """Compose v2, as the plugin of the docker CLI that it is."""
    return Compose(daemon, ("docker", "compose"), "-", plugin())


def plugin() -> dict[str, str]:
    """The environment in which the docker CLI finds compose v2 and buildx; or a skip."""
    if shutil.which("docker") is None:
        pytest.skip("needs the docker CLI")
    if not built.complete(CACHE):
        pytest.skip(f"needs compose {built.VERSION}: {built.unable() or '`python3 -m tests` could not build it'}")
    return {"DOCKER_CONFIG": str(built.place(CACHE).parent.parent)}


SECOND = (pytest.param(second, id="v2"),)
CLIENTS = (pytest.param(first, id="1.29"), *SECOND) if FULL else SECOND


def fetch(place: Namespaces, url: str) -> str:
    """What that host's own curl gets there; nothing when there is nobody."""
    return hosts.run(place, "curl", "--silent", "--fail", url).stdout.strip()


def until(happens: Callable[[], bool], what: str) -> None:
    """Wait for what a service does by itself."""
    end = time.monotonic() + patient(_SECONDS)
    while not happens():
        assert time.monotonic() < end, f"{what} has not happened in {_SECONDS} s"
        time.sleep(0.05)  # a service in a container tells nobody what it has done

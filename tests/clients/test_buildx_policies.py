"""Policies on the sources of builds, as buildx of the day decides them when the daemon asks."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.__main__ import CACHE
from tests.clients.building import Building, building, told
from tests.clients.conftest import Client
from tests.harness import web
from tests.harness.daemon import Daemon
from tests.harness.gitserver import GitServer, serving
from tests.harness.registry import Registry
from tests.setup import buildx as newest

DATA = b"of the server\n"
SUM = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture
def buildx(daemon: Daemon, docker: Client, tmp_path: Path) -> Building:
    """`docker` with that buildx, in an empty directory."""
    if not newest.PROGRAMS.complete(CACHE):
        pytest.skip(f"needs buildx {newest.VERSION}: {newest.PROGRAMS.unable()}")
    made = building(daemon, tmp_path)
    plugin = made.settings / "cli-plugins" / "docker-buildx"
    plugin.unlink()
    plugin.symlink_to(newest.place(CACHE))
    return made


@pytest.fixture
def pages(daemon: Daemon) -> Iterator[str]:
    """A web server on the daemon's loopback."""
    with web.serving({"/file": (200, {}, DATA)}, daemon.namespaces.socket()) as url:
        yield url


@pytest.fixture(scope="module")
def server(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    """A git repository on the daemon's loopback."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    with serving(tmp_path_factory.mktemp("repositories"), daemon.namespaces.socket()) as served:
        repository = served.repository("a")
        repository.commit({"Dockerfile": "FROM busybox\nCOPY . /c\nRUN cat /c/file\n", "file": "of git\n"})
        repository.commit({"docker-bake.hcl": 'target "default" {\n  no-cache = true\n}\n'})
        yield served


def rules(buildx: Building, *lines: str, name: str = "Dockerfile.rego") -> None:
    """A policy: those sources are allowed of which these hold."""
    text = "package docker\n\ndefault allow := false\n\n" + "".join(f"allow if {line}\n" for line in lines)
    (buildx.place / name).write_text(text + '\ndecision := {"allow": allow, "deny_msg": ["not by this policy"]}\n')


def write(buildx: Building, *lines: str) -> None:
    """The Dockerfile, a line each."""
    (buildx.place / "Dockerfile").write_text("".join(f"{line}\n" for line in lines))


def test_a_repository_is_the_context(buildx: Building, server: GitServer) -> None:
    """buildx sends a session of source policy with each of them."""
    assert "of git" in told(buildx("buildx", "build", server.url("a")))
    assert "of git" in told(buildx("buildx", "bake", server.url("a")))


def test_a_policy_beside_the_dockerfile_decides(buildx: Building, server: GitServer) -> None:
    write(buildx, "FROM busybox", f"ADD {server.url('a')} /r", "RUN cat /r/file")
    rules(buildx, "input.local", 'input.image.repo == "busybox"', 'input.git.ref == "refs/heads/main"')
    assert "of git" in told(buildx("buildx", "build", "."))
    rules(buildx, "input.local", "input.git")
    output = told(buildx("buildx", "build", "--no-cache", "."), 1)
    assert 'source "docker-image://docker.io/library/busybox:latest' in output
    assert "not allowed by policy: action DENY" in output and "not by this policy" in output


def test_a_policy_knows_a_commit(buildx: Building, server: GitServer) -> None:
    write(buildx, "FROM busybox", f"ADD {server.url('a')}#main /r", "RUN cat /r/file")
    rules(buildx, "input.local", "input.image", 'input.git.commit.author.email == "one@example.com"')
    assert "of git" in told(buildx("buildx", "build", "--no-cache", "."))
    rules(buildx, "input.local", "input.image", 'input.git.commit.author.email == "two@example.com"')
    assert "not allowed by policy" in told(buildx("buildx", "build", "--no-cache", "."), 1)


def test_a_policy_knows_the_document_of_an_image(buildx: Building) -> None:
    write(buildx, "FROM busybox", "RUN echo built")
    rules(buildx, "input.local", "input.image.env", 'startswith(input.image.checksum, "sha256:")')
    assert "built" in told(buildx("buildx", "build", "--no-cache", "."))
    rules(buildx, "input.local", 'input.image.user == "nobody"')
    assert "not allowed by policy" in told(buildx("buildx", "build", "--no-cache", "."), 1)


def test_a_policy_knows_how_an_image_was_built(buildx: Building, registry: Registry, tag: str) -> None:
    """By its provenance, which this engine has made and pushed."""
    name = f"{registry.address}/{tag}"
    (buildx.place / "Dockerfile").write_text("FROM busybox\nENV of=provenance\n")
    told(buildx("buildx", "build", "--provenance=mode=max,version=v1", "-t", name, "--push", "."))
    write(buildx, f"FROM {name}", "RUN echo $of")
    rules(buildx, "input.local", "{ input.image.hasProvenance; input.image.provenance.predicateType }")
    assert "provenance" in told(buildx("buildx", "build", "--no-cache", "."))
    rules(buildx, "input.local", "{ input.image.hasProvenance; count(input.image.signatures) > 0 }")
    assert "not allowed by policy" in told(buildx("buildx", "build", "--no-cache", "."), 1)


def test_a_policy_knows_a_file(buildx: Building, pages: str) -> None:
    write(buildx, "FROM busybox", f"ADD {pages}/file /file", "RUN cat /file")
    rules(buildx, "input.local", "input.image", f'input.http.checksum == "{SUM}"')
    assert "of the server" in told(buildx("buildx", "build", "--allow", "network.host", "."))
    rules(buildx, "input.local", "input.image", 'input.http.checksum == "sha256:0"')
    assert "not allowed by policy" in told(buildx("buildx", "build", "--no-cache", "--allow", "network.host", "."), 1)

"""Builds from git repositories: as the context of a build, and as a source of ADD."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.contexts import build, tree
from tests.harness.daemon import Daemon
from tests.harness.gitserver import GitServer, serving


@pytest.fixture(scope="module")
def server(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    """On the daemon's loopback."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    place: Path = tmp_path_factory.mktemp("repositories")
    with serving(place, daemon.namespaces.socket()) as served:
        repository = served.repository("a")
        repository.commit({"Dockerfile": "FROM scratch\nCOPY . /c\n", "file": "first"})
        repository("tag", "one")
        repository.commit({"file": "second", "sub/Dockerfile": "FROM scratch\nADD in /in\n", "sub/in": "inside"})
        yield served


def test_a_repository_is_the_context_of_a_build(daemon: Daemon, server: GitServer) -> None:
    made = build(daemon, "", body=b"", remote=server.url("a"))
    assert made.id, made.error
    assert set(tree(daemon, made.id, "c")) == {"c", "c/Dockerfile", "c/file", "c/sub", "c/sub/Dockerfile", "c/sub/in"}
    assert tree(daemon, made.id, "c")["c/file"].endswith("second")
    earlier = build(daemon, "", body=b"", remote=f"{server.url('a')}#one")
    assert tree(daemon, earlier.id, "c")["c/file"].endswith("first")
    below = build(daemon, "", body=b"", remote=f"{server.url('a')}#:sub")
    assert set(tree(daemon, below.id, "in")) == {"in"}
    absent = build(daemon, "", body=b"", remote=f"{server.url('a')}#absent")
    assert (absent.status, absent.error) == (
        404,
        f"repository {server.url('a')} does not contain ref absent",
    )


def test_a_repository_is_a_source_of_add(daemon: Daemon, server: GitServer) -> None:
    url = server.url("a")
    lines = (f"ADD {url}#one /one", f"ADD --keep-git-dir=true {url}#main /two/", f"ADD {url}#:sub /three")
    made = build(daemon, "FROM scratch\n" + "\n".join(lines))
    assert made.id, made.error
    assert set(tree(daemon, made.id, "one")) == {"one", "one/Dockerfile", "one/file"}
    assert {"two/.git", "two/.git/HEAD", "two/file"} <= set(tree(daemon, made.id, "two"))
    assert set(tree(daemon, made.id, "three")) == {"three", "three/Dockerfile", "three/in"}
    commit = server.place / "a.git" / ".git" / "refs" / "heads" / "main"
    right = build(daemon, f"FROM scratch\nADD --checksum={commit.read_text().strip()[:12]} {url} /x")
    assert right.id, right.error
    wrong = build(daemon, f"FROM scratch\nADD --checksum=abcdef {url} /x")
    assert "ADD failed: expected checksum to match abcdef, got" in wrong.error

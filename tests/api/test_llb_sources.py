"""Sources of graphs of operations (LLB) that come from servers: files, git repositories, and what is wrong of them."""

import hashlib
import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError
from tests.harness import web
from tests.harness.daemon import Daemon
from tests.harness.frontends import frontend
from tests.harness.gitserver import GitServer, serving
from tests.harness.graphs import Writer
from tests.harness.registry import Registry

DATA = b"of the server\n"
SUM = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


@pytest.fixture
def pages(daemon: Daemon, world: Any) -> Iterator[str]:
    with web.serving({"/d/file.txt": (200, {}, DATA), "/d/": (200, {}, b"x")}, world.namespaces.socket()) as url:
        yield url


@pytest.mark.parametrize(
    ("path", "attrs", "name", "mode"),
    [
        ("/d/file.txt", {}, "file.txt", 0o600),
        (
            "/d/file.txt",
            {"http.filename": "other", "http.perm": "755", "http.uid": "7", "http.gid": "8"},
            "other",
            0o755,
        ),
        ("/d/file.txt", {"http.checksum": SUM}, "file.txt", 0o600),
        ("/d/", {}, "download", 0o600),
    ],
)
def test_a_file_of_a_server(daemon: Daemon, pages: str, path: str, attrs: dict[str, str], name: str, mode: int) -> None:
    writer = Writer()
    source = writer.add({"source": {"identifier": pages + path, "attrs": attrs}})
    with frontend(daemon) as asked:
        ref = asked.solve(writer.definition(source))
        (found,) = asked("ReadDir", {"Ref": ref, "DirPath": "/"})["entries"]
        assert (found["path"], found["mode"] & 0o777) == (name, mode)
        assert (found["uid"], found["gid"]) == ((7, 8) if "http.uid" in attrs else (0, 0))


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"http.checksum": "sha256:" + "0" * 64}, "digest mismatch"),
        ({"http.checksum": "md5:1"}, "invalid checksum"),
        ({"http.filename": "../x"}, "invalid file name"),
        ({"http.perm": "99"}, "invalid mode or owner"),
        ({"http.uid": "-1"}, "invalid mode or owner"),
        ({"http.header.accept": "x"}, "is not built in this engine"),
    ],
)
def test_a_file_that_is_not_what_was_asked_for(daemon: Daemon, pages: str, attrs: dict[str, str], words: str) -> None:
    writer = Writer()
    source = writer.add({"source": {"identifier": f"{pages}/d/file.txt", "attrs": attrs}})
    with frontend(daemon) as asked, pytest.raises(EngineError, match=words):
        asked.solve(writer.definition(source), Evaluate=True)


@pytest.fixture
def server(daemon: Daemon, world: Any, tmp_path: Path) -> Iterator[GitServer]:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    with serving(tmp_path, world.namespaces.socket()) as served:
        yield served


def test_a_repository(daemon: Daemon, server: GitServer) -> None:
    repository = server.repository("a")
    first = repository.commit({"file": "one\n", "sub/below": "b\n"})
    repository.commit({"file": "two\n"})
    with frontend(daemon) as asked:
        for fragment, more, path, expected in (
            ("", {}, "/file", b"two\n"),
            ("#main", {}, "/file", b"two\n"),
            (f"#{first}", {}, "/file", b"one\n"),
            ("#main:sub", {}, "/below", b"b\n"),
            ("", {"git.keepgitdir": "true"}, "/.git/HEAD", None),
        ):
            writer = Writer()
            rest = server.url("a").removeprefix("http://")
            attrs = {"git.fullurl": server.url("a"), **more}
            source = writer.add({"source": {"identifier": f"git://{rest}{fragment}", "attrs": attrs}})
            data = asked.read(asked.solve(writer.definition(source)), path)
            assert expected is None or data == expected


@pytest.mark.parametrize(
    ("identifier", "attrs", "words"),
    [
        ("git://example.com/a.git", {"git.moon": "1"}, "the attribute git.moon"),
        ("git://example.com/a.git", {"git.keepgitdir": "perhaps"}, "invalid git.keepgitdir"),
        ("git://example.com/a.git", {"git.mtime": "never"}, "invalid git.mtime"),
        ("git://example.com/a.git", {"git.authtokensecret": "OTHER"}, "secret of another name"),
        ("git://example.com/a.git", {"git.fullurl": "ext::sh -c id"}, "invalid git address"),
        ("git://example.com/a.git", {"git.fullurl": "file:///etc"}, "invalid git address"),
        ("git://-example.com/a b", {}, "invalid git address"),
        ("git://example.com/a.git#--upload-pack=x", {}, "invalid|ref"),
    ],
)
def test_a_repository_that_there_cannot_be(daemon: Daemon, identifier: str, attrs: dict[str, str], words: str) -> None:
    writer = Writer()
    source = writer.add({"source": {"identifier": identifier, "attrs": attrs}})
    with frontend(daemon) as asked, pytest.raises(EngineError, match=words):
        asked.solve(writer.definition(source))


def test_what_is_asked_about_an_image_is_not_pulled(daemon: Daemon, registry: Registry) -> None:
    """Its manifest and document come from the registry, and nothing else."""
    name = f"asked/{uuid.uuid4().hex}:1"
    pushed = registry.push(name, [b"no archive, so that nobody could unpack it"], {"Env": ["of=the-registry"]})
    with frontend(daemon) as asked:
        found = asked("ResolveImageConfig", {"Ref": f"{registry.address}/{name}"})
        assert json.loads(found["Config"])["config"]["Env"] == ["of=the-registry"]
        assert found["Digest"] == pushed.digest
        with pytest.raises(EngineError, match="not found"):
            asked("ResolveImageConfig", {"Ref": f"{registry.address}/asked/none:1"})
    assert daemon.request("GET", f"/images/{registry.address}/{name}/json").status == 404

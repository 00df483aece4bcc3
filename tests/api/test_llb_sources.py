"""Sources of graphs of operations (LLB) that come from servers: files, git repositories, and what is wrong of them."""

import base64
import contextlib
import hashlib
import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.messages import content, gateway
from engine.daemon.buildkit.serving import Call, Method
from engine.daemon.images.content import digest_of
from engine.daemon.images.image import OCI_CONFIG, OCI_MANIFEST
from engine.errors import EngineError
from tests.api.test_llb_web import giving
from tests.harness import web
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, dial, frontend
from tests.harness.gitserver import GitServer, serving
from tests.harness.graphs import Writer
from tests.harness.links import running
from tests.harness.registry import Registry

DATA = b"of the server\n"
SUM = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
HOST_NETWORK = ["network.host"]


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
    with frontend(daemon, Entitlements=HOST_NETWORK) as asked:
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
        ({"http.header.range": "x"}, "is not built in this engine"),
    ],
)
def test_a_file_that_is_not_what_was_asked_for(daemon: Daemon, pages: str, attrs: dict[str, str], words: str) -> None:
    writer = Writer()
    source = writer.add({"source": {"identifier": f"{pages}/d/file.txt", "attrs": attrs}})
    with frontend(daemon, Entitlements=HOST_NETWORK) as asked, pytest.raises(EngineError, match=words):
        asked.solve(writer.definition(source), Evaluate=True)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1.2.3", "2130706433", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"]
)
def test_the_hosts_loopback_interface_is_out_of_reach(daemon: Daemon, pages: str, host: str) -> None:
    """Whether something listens there is not told either."""
    port = pages.rpartition(":")[2]
    with frontend(daemon) as asked:
        for url in (f"http://{host}:{port}/d/file.txt", f"http://{host}:1/", f"https://{host}:{port}/"):
            writer = Writer()
            source = {"identifier": url, "attrs": {}}
            made = writer.definition(writer.add({"source": source}))
            with pytest.raises(EngineError, match=r"with the entitlement network\.host only"):
                asked.solve(made, Evaluate=True)
            with pytest.raises(EngineError, match=r"with the entitlement network\.host only"):
                asked("ResolveSourceMeta", {"Source": source})


def test_no_other_server_leads_to_the_hosts_loopback_interface(daemon: Daemon, pages: str, world: Any) -> None:
    outer = "198.51.100.7"

    def address(change: str) -> None:
        subprocess.run(world.namespaces.command(["ip", "address", change, f"{outer}/32", "dev", "lo"]), check=True)

    moved = {"/moved": (302, {"Location": f"{pages}/d/file.txt"}, b""), "/here": (200, {}, DATA)}
    with contextlib.ExitStack() as stack:
        address("add")
        stack.callback(address, "del")
        url = stack.enter_context(web.serving(moved, world.namespaces.socket(), outer))
        writer = Writer()
        away, here = (writer.add({"source": {"identifier": url + path, "attrs": {}}}) for path in moved)
        with frontend(daemon) as asked:
            assert asked.solve(writer.definition(here), Evaluate=True)
            with pytest.raises(EngineError, match=r"network\.host only"):
                asked.solve(writer.definition(away), Evaluate=True)
        with frontend(daemon, Entitlements=HOST_NETWORK) as asked:
            assert asked.solve(writer.definition(away), Evaluate=True)


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


@pytest.mark.parametrize("attribute", ["git.authtokensecret", "git.authheadersecret"])
def test_a_repository_that_a_secret_of_any_name_opens(daemon: Daemon, server: GitServer, attribute: str) -> None:
    """The name with the host behind it comes first; what is asked about the source is asked with it too."""
    server.repository("a").commit({"file": "one\n"})
    server.token = "basic " + base64.b64encode(b"x-access-token:hush").decode()
    value = b"hush" if attribute == "git.authtokensecret" else server.token.encode()
    url = server.url("a")
    source = {"identifier": f"git://{url.partition('://')[2]}", "attrs": {"git.fullurl": url, attribute: "mine"}}
    for secrets in ({"mine": value}, {f"mine.127.0.0.1:{server.port}": value, "mine": b"wrong"}):
        with giving(daemon, secrets) as id, frontend(daemon, Session=id) as asked:
            writer = Writer()
            assert asked.read(asked.solve(writer.definition(writer.add({"source": source}))), "/file") == b"one\n"
            assert asked("ResolveSourceMeta", {"Source": source})["Git"]["Ref"]


def test_what_is_asked_about_a_file(daemon: Daemon, pages: str) -> None:
    """Its digest, also another one than of the file alone, and its name."""
    with frontend(daemon, Entitlements=HOST_NETWORK) as asked:
        source = {"identifier": f"{pages}/d/file.txt", "attrs": {}}
        told = asked("ResolveSourceMeta", {"Source": source})["HTTP"]
        assert (told["Checksum"], told["Filename"], told["LastModified"]) == (SUM, "file.txt", None)
        request = {"Algo": gateway.CHECKSUM_ALGO_SHA512, "Suffix": b"salt"}
        told = asked("ResolveSourceMeta", {"Source": source, "HTTP": {"ChecksumRequest": request}})["HTTP"]
        digest = f"sha512:{hashlib.sha512(DATA + b'salt').hexdigest()}"
        assert told["ChecksumResponse"] == {"Digest": digest, "Suffix": b"salt"}
        for request, words in (({"Algo": 9}, "unsupported"), ({"Suffix": b"x" * 5000}, "a suffix of more than")):
            with pytest.raises(EngineError, match=words):
                asked("ResolveSourceMeta", {"Source": source, "HTTP": {"ChecksumRequest": request}})


def test_what_is_asked_about_a_repository(daemon: Daemon, server: GitServer) -> None:
    """The commit of a branch; an annotated tag, and the commit that it is of."""
    repository = server.repository("a")
    commit = repository.commit({"file": "one\n"})
    repository("tag", "-a", "-m", "said", "v1")
    repository("update-server-info")
    tag = repository("rev-parse", "v1").strip()
    rest = server.url("a").removeprefix("http://")
    with frontend(daemon) as asked:
        for ref, expected in (
            ("main", {"Checksum": commit, "Ref": "refs/heads/main", "CommitChecksum": ""}),
            ("v1", {"Checksum": tag, "Ref": "refs/tags/v1", "CommitChecksum": commit}),
            (commit, {"Checksum": commit, "Ref": commit, "CommitChecksum": ""}),
        ):
            source = {"identifier": f"git://{rest}#{ref}", "attrs": {"git.fullurl": server.url("a")}}
            told = asked("ResolveSourceMeta", {"Source": source})["Git"]
            assert {key: told[key] for key in expected} == expected
            told = asked("ResolveSourceMeta", {"Source": source, "Git": {"ReturnObject": True}})["Git"]
            for kind, data, name in (("commit", told["CommitObject"], commit), ("tag", told["TagObject"], tag)):
                if kind == "commit" or ref == "v1":
                    assert hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest() == name
                else:
                    assert data == b""
        source = {"identifier": f"git://{rest}", "attrs": {"git.fullurl": server.url("a")}}
        assert asked("ResolveSourceMeta", {"Source": source})["Git"]["Ref"] == "refs/heads/main"


@contextlib.contextmanager
def storing(daemon: Daemon, blobs: dict[str, bytes]) -> Iterator[str]:
    """The id of a session whose client has a content store with these blobs."""

    def read(call: Call[content.ReadContentRequest, content.ReadContentResponse]) -> None:
        call.send({"data": blobs[call.one()["digest"]]})

    id = uuid.uuid4().hex
    served = {methods.CONTENT + "Read": Method(content.ReadContentRequest, content.ReadContentResponse, read)}
    with running(dial(daemon, "/session", f"{UPGRADE}X-Docker-Expose-Session-Uuid: {id}\r\n"), False, served):
        yield id


@pytest.mark.parametrize("scheme", ["docker-image+blob", "oci-layout+blob"])
def test_a_blob_is_a_file(daemon: Daemon, registry: Registry, scheme: str) -> None:
    """It has the digest's name and no rights for others, or what the graph says."""
    data, name = uuid.uuid4().bytes, f"blobs/{uuid.uuid4().hex}"
    registry.push_blob(name, data)
    digest = digest_of(data)
    with storing(daemon, {digest: data, digest_of(b"other"): b"x"}) as id, frontend(daemon, Session=id) as asked:

        def made(digest: str, attrs: dict[str, str]) -> str:
            place = f"{registry.address}/{name}" if scheme.startswith("docker") else "there"
            writer = Writer()
            source = writer.add({"source": {"identifier": f"{scheme}://{place}@{digest}", "attrs": attrs}})
            return asked.solve(writer.definition(source), Evaluate=True)

        ref = made(digest, {})
        (found,) = asked("ReadDir", {"Ref": ref, "DirPath": "/"})["entries"]
        assert (found["path"], found["mode"] & 0o777) == (digest.partition(":")[2], 0o600)
        assert asked.read(ref, f"/{found['path']}") == data
        said = {"http.filename": "f", "http.perm": "0644", "http.uid": "7", "http.gid": "8"}
        (found,) = asked("ReadDir", {"Ref": made(digest, said), "DirPath": "/"})["entries"]
        assert (found["path"], found["mode"] & 0o777, found["uid"], found["gid"]) == ("f", 0o644, 7, 8)
        for wrong, attrs, words in (
            (digest_of(b"other"), {}, "other content|not found|unknown"),
            ("sha256:1", {}, "invalid"),
            (digest, {"http.checksum": "x"}, "of a blob is not built"),
        ):
            with pytest.raises(EngineError, match=words):
                made(wrong, attrs)


def test_what_is_asked_about_an_image_of_a_client(daemon: Daemon) -> None:
    """An image in a content store that the client's session serves, of which no layer is read."""
    config = json.dumps({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": []}}).encode()
    part = {"mediaType": OCI_CONFIG, "digest": digest_of(config), "size": len(config)}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": part, "layers": []}).encode()
    blobs = {digest_of(data): data for data in (config, manifest)}
    image = digest_of(manifest)
    with storing(daemon, blobs) as id, frontend(daemon, Session=id) as asked:
        op = {"identifier": f"oci-layout://x/y@{image}", "attrs": {"oci.store": "s"}}
        told = asked("ResolveSourceMeta", {"Source": op})["Image"]
        assert (told["Digest"], json.loads(told["Config"])["os"]) == (image, "linux")
        again = asked("ResolveImageConfig", {"Ref": f"x/y@{image}", "ResolverType": 1, "StoreID": "s"})
        assert (again["Digest"], again["Config"]) == (image, told["Config"])


def test_what_is_asked_about_an_image_is_is_not_pulled(daemon: Daemon, registry: Registry) -> None:
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

"""A push from name to digest line, against a registry in a thread of the test."""

import io
import json
import os
import threading

import pytest

from engine import dataclass
from engine.daemon.images.registry import upload
from engine.daemon.images.verbs import load, push
from engine.daemon.store import blobsources
from engine.daemon.store import images as table
from engine.errors import Invalid, NotFound, SystemFailure, Unauthorized
from tests.unit.images import made
from tests.unit.images.fakeregistry import answer
from tests.unit.images.uploads import Shelf, taking

LAYERS = [made.archive(made.member(f"file-{number}", os.urandom(2000))) for number in range(8)]


@pytest.fixture
def shelf():
    with taking() as served:
        yield served


@pytest.fixture
def store(tmp_path, shelf, monkeypatch):
    """A store with an image of eight layers, which goes by two tags of a/b and one of c/d."""
    monkeypatch.setattr(upload, "_FIRST_PAUSE", 0.0)
    loaded = made.store(tmp_path)
    names = [f"{shelf.address}/{name}" for name in ("a/b:1", "a/b:2", "c/d:1")]
    load.load(loaded, io.BytesIO(made.docker_archive(made.MadeImage(*LAYERS), names)), lambda line: None)
    return loaded


def pushed(store, shelf: Shelf, name: str, tag: str = "", **options) -> list[dict]:
    lines: list[dict] = []
    push.push(store, f"{shelf.address}/{name}", tag, options.get("platform"), options.get("auth"), lines.append)
    return lines


def statuses(lines: list[dict]) -> list[str]:
    return [line["status"] for line in lines if "id" in line and line["status"] != "Pushing"]


def test_the_lines_of_a_push(store, shelf):
    image = store.find(f"{shelf.address}/a/b:1")
    lines = pushed(store, shelf, "a/b", "1")
    assert lines[0] == {"status": f"The push refers to repository [{shelf.address}/a/b]"}
    said = statuses(lines)
    assert said[:11] == ["Preparing"] * 8 + ["Waiting"] * 3 and said[11:] == ["Pushed"] * 8
    size = image.descriptor["size"]
    assert lines[-2] == {"status": f"1: digest: {image.id} size: {size}"}
    assert lines[-1] == {"progressDetail": {}, "aux": {"Tag": "1", "Digest": image.id, "Size": size}}
    assert made.digest(shelf.manifests["a/b", "1"]) == image.id
    held = {digest for repository, digest in shelf.blobs if repository == "a/b"}
    manifest = json.loads(shelf.manifests["a/b", "1"])
    assert held == {part["digest"] for part in (manifest["config"], *manifest["layers"])}


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_uploads_at_once_than_the_daemon_was_told(store, shelf, most):
    """Of two pushes side by side: from an upload's first request to its last, as the registry sees them."""
    lock, full, under_way, peak = threading.Condition(), [], set(), []

    def watch(handler) -> bool:
        path = handler.path.partition("?")[0]
        if handler.command not in ("PATCH", "PUT") or path not in shelf.uploads:
            return False
        with lock:
            under_way.add(path)
            peak.append(len(under_way))
            lock.notify_all()
            # Held until as many are here as are allowed, for once: then the bound is reached and no more than that.
            if not full and lock.wait_for(lambda: len(under_way) >= most or full, 30):
                full.append(path)
                lock.notify_all()
        shelf.serve(handler)
        if handler.command == "PUT":
            with lock:
                under_way.discard(path)
        return True

    store.settings = dataclass.replace(store.settings, max_concurrent_uploads=most)
    shelf.hook = watch
    names = [("a/b", "1"), ("c/d", "1")]
    pushes = [threading.Thread(target=pushed, args=(store, shelf, *each)) for each in names]
    for each in pushes:
        each.start()
    for each in pushes:
        each.join(60)
    assert max(peak) == most and len(shelf.blobs) == 18


def test_what_is_there_is_not_sent_again(store, shelf):
    pushed(store, shelf, "a/b", "1")
    shelf.asked.clear()
    lines = pushed(store, shelf, "a/b", "1")
    assert statuses(lines)[11:] == ["Layer already exists"] * 8
    assert set(shelf.methods("/a/b/")) == {"HEAD"}


def test_every_tag_of_a_repository(store, shelf):
    lines = pushed(store, shelf, "a/b")
    assert [line["aux"]["Tag"] for line in lines if "aux" in line] == ["1", "2"]
    assert ("a/b", "2") in shelf.manifests and ("c/d", "1") not in shelf.manifests


def test_a_neighbours_blobs_are_mounted(store, shelf):
    pushed(store, shelf, "a/b", "1")
    shelf.asked.clear()
    lines = pushed(store, shelf, "c/d", "1")
    assert statuses(lines)[11:] == ["Mounted from a/b"] * 8
    assert [method for method in shelf.methods("/c/d/") if method == "PUT"] == ["PUT"]


def test_a_neighbour_that_gives_nothing_is_forgotten(store, shelf):
    pushed(store, shelf, "a/b", "1")
    shelf.hook = lambda handler: "mount=" in handler.path and answer(handler, 405)
    assert statuses(pushed(store, shelf, "c/d", "1"))[11:] == ["Pushed"] * 8
    layer = json.loads(shelf.manifests["c/d", "1"])["layers"][0]["digest"]
    with store.database.reading() as connection:
        assert blobsources.repositories(connection, shelf.address, layer, 9) == ["c/d"]


def test_a_push_by_digest(store, shelf):
    image = store.find(f"{shelf.address}/a/b:1")
    lines = pushed(store, shelf, f"a/b@{image.id}")
    assert lines[-2]["status"] == f"{image.id}: digest: {image.id} size: {image.descriptor['size']}"
    assert shelf.manifests.keys() == {("a/b", image.id)}


@pytest.mark.parametrize(
    ("name", "tag", "kind", "words"),
    [
        ("a/x", "", NotFound, "An image does not exist locally with the tag: {address}/a/x"),
        ("a/x", "1", NotFound, "tag does not exist: {address}/a/x:1"),
        ("a/b", "3", NotFound, "tag does not exist: {address}/a/b:3"),
        ("a/b:3", "", NotFound, "tag does not exist: {address}/a/b:3"),
        ("a/b@sha256:" + "a" * 64, "", NotFound, "tag does not exist: {address}/a/b@sha256:" + "a" * 64),
        ("a/b@sha256:" + "a" * 64, "1", Invalid, "refusing to create a tag with a digest reference"),
        ("A/b", "", Invalid, "invalid reference format: repository name (A/b) must be lowercase"),
        ("a/b", "-x", Invalid, "invalid tag format"),
    ],
)
def test_names_that_cannot_be_pushed(store, shelf, name, tag, kind, words):
    lines: list[dict] = []
    with pytest.raises(kind) as failure:
        push.push(store, f"{shelf.address}/{name}", tag, None, None, lines.append)
    assert str(failure.value) == words.format(address=shelf.address)
    # A name that is none is an answer of its own; all else has the first line before it.
    assert len(lines) == (kind is NotFound)
    assert not shelf.asked


def test_a_platform_that_the_image_is_not_for(store, shelf):
    with pytest.raises(NotFound, match=r"does not provide the specified platform \(linux/s390x\)"):
        pushed(store, shelf, "a/b", "1", platform="linux/s390x")


def test_a_registry_without_a_basic_password(store, shelf):
    shelf.hook = lambda handler: answer(handler, 401, WWW_Authenticate='Basic realm="x"')
    with pytest.raises(Unauthorized, match=r"push access denied, .*: authorization failed: no basic auth credentials"):
        pushed(store, shelf, "a/b", "1")


def test_a_registry_that_denies(store, shelf):
    words = b'{"errors": [{"code": "DENIED", "message": "requested access to the resource is denied"}]}'
    shelf.hook = lambda handler: handler.command == "POST" and answer(handler, 403, words)
    with pytest.raises(
        Unauthorized, match=r"push access denied, .*: denied: requested access to the resource is denied"
    ):
        pushed(store, shelf, "a/b", "1")


def test_one_failure_ends_the_others(store, shelf):
    shelf.hook = lambda handler: (
        handler.command == "PUT"
        and bool(handler.rfile.read(int(handler.headers["Content-Length"])) and answer(handler, 400, b"{}"))
    )
    with pytest.raises(SystemFailure, match="400 Bad Request"):
        pushed(store, shelf, "a/b", "1")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("push-")]


def test_a_client_that_goes_away_ends_the_push(store, shelf):
    def gone(line: dict) -> None:
        if line["status"] == "Pushed":
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        push.push(store, f"{shelf.address}/a/b", "1", None, None, gone)
    assert not shelf.manifests


def test_a_blob_that_is_lost_is_told(store, shelf):
    image = store.find(f"{shelf.address}/a/b:1")
    layer = json.loads(store.content.read(image.manifest, 1 << 20))["layers"][0]
    store.content.remove(layer["digest"])
    lines: list[dict] = []
    with pytest.raises(NotFound):
        push.push(store, f"{shelf.address}/a/b", "1", None, None, lines.append)
    assert {"contentMissing": True, "desc": layer} in [line.get("aux") for line in lines]


def test_a_push_is_an_event(store, shelf, monkeypatch):
    told = []
    monkeypatch.setattr(store, "announce", lambda *what: told.append(what[:3]))
    pushed(store, shelf, "a/b", "1")
    assert told == [("push", f"{shelf.address}/a/b:1", f"{shelf.address}/a/b")]


def test_a_partly_pulled_index(store, shelf, monkeypatch):
    """One platform goes in its place; the whole where the repository has the rest."""
    image = store.find(f"{shelf.address}/a/b:1")
    other = made.MadeImage(made.archive(made.member("x")), architecture="s390x")
    manifest = json.loads(store.content.read(image.manifest, 1 << 20))
    ours = made.part(manifest["mediaType"], store.content.read(image.manifest, 1 << 20))
    index = made.index(
        {**ours, "platform": {"os": "linux", "architecture": "amd64"}}, other.entry(architecture="s390x")
    )
    store.content.put(index)
    root = made.part(made.OCI + "index.v1+json", index)
    partly = dataclass.replace(image, id=root["digest"], descriptor=root)
    monkeypatch.setattr(store, "find", lambda name: partly)
    lines = pushed(store, shelf, "a/b", "1")
    instead = {"manifestPushedInsteadOfIndex": True, "originalIndex": root, "selectedManifest": ours}
    assert instead in [line.get("aux") for line in lines]
    assert made.digest(shelf.manifests["a/b", "1"]) == ours["digest"]
    shelf.manifests["a/b", other.digest] = other.manifest
    lines = pushed(store, shelf, "a/b", "1")
    assert lines[-1]["aux"] == {"Tag": "1", "Digest": root["digest"], "Size": root["size"]}
    assert shelf.manifests["a/b", "1"] == index


def test_names_in_the_store_decide_what_is_all(store, shelf):
    with store.database.transaction() as connection:
        table.drop_name(connection, f"{shelf.address}/a/b:2")
    lines = pushed(store, shelf, "a/b")
    assert [line["aux"]["Tag"] for line in lines if "aux" in line] == ["1"]

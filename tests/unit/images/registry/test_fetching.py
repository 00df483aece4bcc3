"""Layers that arrive: unpacked meanwhile, side by side; silence, trickles, a full disk, and clients that go away."""

import contextlib
import os
import pathlib
import re
import threading
import time

import pytest

from engine.daemon import busy
from engine.daemon.images import platform
from engine.daemon.images.layers import comparing
from engine.daemon.images.registry import download, paced, transport
from engine.daemon.images.registry import reads as protocol
from engine.daemon.images.verbs import pull as pulling
from engine.daemon.store import images as table
from engine.daemon.tar.space import NoSpace
from engine.dataclass import replace
from engine.errors import Invalid, SystemFailure
from tests.unit.images import made
from tests.unit.images.fakeregistry import answer
from tests.unit.images.made import MadeImage, archive, files_below, member

HOST = platform.host()
OWN = {"architecture": HOST.architecture, **({"variant": HOST.variant} if HOST.variant else {})}
_SECONDS = 30.0


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(download, "_FIRST_PAUSE", 0.0)


@pytest.fixture
def image():
    """Its first layer does not pack, so that half of what is sent is half of what comes out."""
    return MadeImage(
        archive(member("early", os.urandom(600_000)), member("late", b"x")), archive(member("b", b"2")), **OWN
    )


def pull(store, registry, **options):
    return pulling.pull(store, f"{registry.address}/x", "latest", None, None, lambda line: None, **options)


@pytest.fixture
def client():
    """What this thread serves is the request of a client with a name."""
    busy.serve("POST", "/images/create", "Docker-Client/29.5 (linux; x)\r\nEvil: 1\\")
    yield
    busy.rest()


def test_a_registry_is_told_whose_client_asks(store, registry, image, client):
    registry.add(image, "latest")
    pull(store, registry)
    (agent,) = {headers["user-agent"] for _, _, headers in registry.asked}
    assert agent.startswith("docker/29.") and " engine/" in agent and " os/linux arch/" in agent
    assert agent.endswith(r" UpstreamClient(Docker-Client/29.5 \(linux\; x\)Evil: 1\\)")


def test_without_a_client_the_daemon_names_itself_alone(monkeypatch):
    monkeypatch.setattr(transport, "_reported", ["7.0"])
    assert re.fullmatch(r"docker/7\.0 engine/[\w.]+ kernel/\S+ os/linux arch/\w+", transport.agent())
    assert len(transport.agent("(" * 10_000_000)) < 3_000


def path_of(image, number=0):
    return f"/v2/x/blobs/{made.digest(image.packed[number])}"


def begin(handler, data, size=None):
    """The head of an answer of `size` bytes, and the first of them."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data) if size is None else size))
    handler.end_headers()
    handler.wfile.write(data)
    handler.wfile.flush()
    handler.close_connection = True


def until(condition):
    """Wait for what another thread does."""
    end = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def unpacked(store):
    return files_below(pathlib.Path(store.layer_root))


def begun(store, blob):
    """How many bytes of the blob are on the disk."""
    path = pathlib.Path(store.content.partial_path(made.digest(blob)))
    return path.stat().st_size if path.exists() else 0


def leftovers(store):
    """What a pull left on the disk: half blobs, and layers."""
    tmp = pathlib.Path(store.content.temporary_path()).parent
    return {path.name for path in tmp.iterdir() if path.stat().st_size} | unpacked(store)


def test_a_layer_is_unpacked_while_it_arrives_and_has_no_name_before_all_of_it_was_checked(store, registry, image):
    registry.add(image, "latest")
    whole = image.packed[0]
    seen = []

    def hook(handler):
        if handler.path != path_of(image):
            return False
        begin(handler, whole[:-1], len(whole))
        until(lambda: any(name.endswith("/late") for name in unpacked(store)))
        with store.database.reading() as connection:
            seen.append(table.layer_by_diff_id(connection, made.digest(image.layers[0])))
        seen.append(store.all())
        handler.wfile.write(whole[-1:])
        return True

    registry.hook = hook
    found = pull(store, registry)
    assert seen == [None, []]
    assert pathlib.Path(store.layer_root, found.layers[0], "late").read_text() == "x"


def test_a_layer_does_not_wait_for_the_one_before_it(store, registry, image):
    registry.add(image, "latest")

    def hook(handler):
        if handler.path == path_of(image):
            until(lambda: any(name.endswith("/b") for name in unpacked(store)))
        return False

    registry.hook = hook
    if len(os.sched_getaffinity(0)) > 1:
        assert len(pull(store, registry).layers) == 2


def test_a_download_that_breaks_while_it_is_unpacked_goes_on_in_both(store, registry, image):
    registry.add(image, "latest")
    whole, broken = image.packed[0], []

    def hook(handler):
        if handler.path != path_of(image) or len(broken) == 3:
            return False
        start = int(handler.headers.get("Range", "bytes=0-")[6:-1])
        broken.append(start)
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(whole) - start))
        handler.send_header("Content-Range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
        handler.end_headers()
        handler.wfile.write(whole[start : start + 150_000])
        handler.close_connection = True
        return True

    registry.hook = hook
    found = pull(store, registry)
    assert broken == [0, 150_000, 300_000]
    assert pathlib.Path(store.layer_root, found.layers[0], "early").stat().st_size == 600_000


@pytest.mark.parametrize("most", [1, 2])
def test_a_download_that_always_breaks_is_tried_as_often_as_the_daemon_may(store, registry, image, most):
    registry.add(image, "latest")
    store.settings = replace(store.settings, max_download_attempts=most)
    asked = []

    def hook(handler):
        if handler.path != path_of(image):
            return False
        asked.append(handler.path)
        begin(handler, b"", 500_000)
        handler.close_connection = True
        return True

    registry.hook = hook
    with pytest.raises(SystemFailure):
        pull(store, registry)
    assert len(asked) == most


def test_a_server_that_begins_anew_in_the_middle_is_followed_all_the_same(store, registry, image):
    registry.add(image, "latest")
    whole, broken = image.packed[0], []

    def hook(handler):
        if handler.path != path_of(image):
            return False
        # No word of ranges: the second answer is the whole again.
        begin(handler, whole if broken else whole[:400_000], len(whole))
        broken.append(handler.path)
        return True

    registry.hook = hook
    found = pull(store, registry)
    assert len(broken) == 2
    assert pathlib.Path(store.layer_root, found.layers[0], "late").read_text() == "x"


@pytest.mark.parametrize("place", [0.3, 0.9])
def test_a_layer_that_comes_damaged_is_refused_as_such_and_leaves_nothing(store, registry, image, place):
    registry.add(image, "latest")
    data = bytearray(image.packed[0])
    at = int(len(data) * place)
    data[at : at + 64] = bytes(64)
    registry.blobs[made.digest(image.packed[0])] = bytes(data)
    with pytest.raises(
        Invalid, match=r'failed commit on ref "layer-sha256:[0-9a-f]{64}": commit failed: unexpected commit digest'
    ):
        pull(store, registry)
    # The other layer's download was interrupted; the next pull goes on with the part that has come.
    damaged = made.digest(image.packed[0]).replace(":", "-")
    assert unpacked(store) == set() and f"{damaged}.partial" not in leftovers(store)
    registry.add(image, "latest")
    assert len(pull(store, registry).layers) == 2


def test_a_layer_that_is_damaged_at_home_is_refused_when_its_blob_is_right(store, registry):
    layer = archive(member("f", os.urandom(5000)))
    broken = MadeImage(layer, **OWN)
    other = broken.packed[0][:3000] + bytes(50)
    broken.packed[0] = other
    broken.document["layers"][0] = made.part(broken.document["layers"][0]["mediaType"], other)
    broken.manifest = made.json.dumps(broken.document).encode()
    registry.add(broken, "latest")
    registry.blobs[made.digest(other)] = other
    with pytest.raises(Invalid, match=r"damaged gzip stream|unexpected EOF"):
        pull(store, registry)
    assert unpacked(store) == set()


# Registries that fall silent, or nearly


@pytest.mark.parametrize("kind", ["/blobs/", "/manifests/"])
def test_a_registry_that_falls_silent_is_given_up(store, registry, image, sockets, kind):
    registry.add(image, "latest")
    ended = threading.Event()

    def hook(handler):
        if kind not in handler.path or handler.command == "HEAD":
            return False
        # Whoever is served here waits no longer from now on; what comes before it may take its time.
        (client,) = (each for each in sockets if each.fileno() >= 0 and each.getsockname() == handler.client_address)
        client.settimeout(0.05)
        begin(handler, b"{", 500)
        return ended.wait(_SECONDS)

    registry.hook = hook
    with pytest.raises(SystemFailure, match="timed out"):
        pull(store, registry)
    ended.set()
    assert unpacked(store) == set()


@pytest.mark.parametrize(
    ("kind", "limit", "text"),
    [
        ("/blobs/", "SILENCE_SECONDS", "less than 1024 bytes a second"),
        ("/manifests/", "_DOCUMENT_SECONDS", "context deadline exceeded|timeout awaiting response headers"),
    ],
)
def test_a_registry_that_trickles_is_given_up_too(store, registry, image, sockets, monkeypatch, kind, limit, text):
    store.settings = replace(store.settings, max_download_attempts=1)
    registry.add(image, "latest")
    ended = threading.Event()

    def hook(handler):
        if kind not in handler.path or handler.command == "HEAD":
            return False
        begin(handler, b"{", 500_000)
        monkeypatch.setattr(paced, limit, 0.1)  # what comes before it may take its time
        try:
            while not ended.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            pass  # the daemon has hung up
        return True

    registry.hook = hook
    with pytest.raises(SystemFailure, match=text):
        pull(store, registry)
    ended.set()


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_layers_are_downloaded_at_once_than_the_daemon_may(store, registry, most):
    layers = MadeImage(*(archive(member(str(number), os.urandom(5_000))) for number in range(5)), **OWN)
    registry.add(layers, "latest")
    store.settings = replace(store.settings, max_concurrent_downloads=most)
    asked_for = {path_of(layers, number) for number in range(5)}
    running, seen = [], []
    together = threading.Event()

    def hook(handler):
        if handler.path in asked_for and handler.command == "GET":
            running.append(handler.path)
            seen.append(len(running))
            if len(running) == most:
                together.set()
            together.wait(20)  # however slow the host is, the first ones see each other
            time.sleep(0.1)  # in which one too many would come
            running.remove(handler.path)
        return False

    registry.hook = hook
    pull(store, registry)
    assert len(seen) == 5 and max(seen) == most


def _flood(handler, line):
    """Say it again and again, as fast as it is read."""
    handler.close_connection = True
    with contextlib.suppress(OSError):  # the daemon has hung up
        while True:
            handler.wfile.write(line * 1000)
    return True


@pytest.mark.parametrize("kind", ["/manifests/", "/blobs/"])
def test_a_registry_that_never_ends_to_say_continue_is_given_up(store, registry, image, kind):
    store.settings = replace(store.settings, max_download_attempts=1)
    registry.add(image, "latest")
    registry.hook = lambda handler: kind in handler.path and _flood(handler, b"HTTP/1.1 100 Continue\r\n\r\n")
    with pytest.raises(SystemFailure, match="the answer's head is longer than"):
        pull(store, registry)


def test_trailers_without_end_take_nothing_from_a_blob_that_is_whole(store, registry, image):
    registry.add(image, "latest")

    def hook(handler):
        blob = registry.blobs.get(handler.path.rpartition("/")[2])
        if blob is None:
            return False
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%b\r\n0\r\n" % (len(blob), blob))
        return _flood(handler, b"X-Trailer: of very many\r\n")

    registry.hook = hook
    pull(store, registry)
    assert unpacked(store) != set()


@pytest.mark.alone
def test_a_client_that_goes_away_while_the_registry_is_silent_ends_the_pull(store, registry, image):
    registry.add(image, "latest")
    ended, silent = threading.Event(), threading.Event()

    def hook(handler):
        if handler.path != path_of(image):
            return False
        begin(handler, image.packed[0][:1000], len(image.packed[0]))
        silent.set()
        return ended.wait(_SECONDS)

    registry.hook = hook
    began = time.monotonic()
    with pytest.raises(SystemFailure, match="context canceled"):
        pull(store, registry, gone=lambda: silent.is_set() and begun(store, image.packed[0]) == 1000)
    ended.set()
    assert time.monotonic() - began < 3
    assert unpacked(store) == set()
    assert not any(thread.name.startswith(("pull-", "read-ahead")) for thread in threading.enumerate())
    registry.hook = lambda handler: False
    pull(store, registry)
    assert ("range", "bytes=1000-") in [item for _, headers in registry.blob_requests() for item in headers.items()]


# A full disk


def test_a_disk_that_fills_up_fails_the_pull_and_gets_all_its_room_back(store, registry, image, monkeypatch):
    registry.add(image, "latest")
    monkeypatch.setattr(download, "_SPACE_STEP", 300_000)

    def full(fd):
        until(lambda: store.content.has(made.digest(image.packed[1])))
        raise NoSpace("no space left on device")

    monkeypatch.setattr(download, "check_space", full)
    with pytest.raises(NoSpace, match="no space left on device"):
        pull(store, registry)
    assert leftovers(store) == set()
    assert not any(store.content.has(digest) for digest in image.blobs)


# Every tag


def test_every_tag_of_a_repository_is_pulled_whatever_the_pages_of_its_list(store, registry, image):
    registry.add(image, "one", "two", "three")
    lines = []

    def hook(handler):
        path, _, query = handler.path.partition("?")
        if path != "/v2/x/tags/list":
            return False
        if query == "n=1000":
            link = '</v2/x/tags/list?n=2&last=two>; rel="next"'
            return answer(handler, 200, b'{"name":"x","tags":["one","two"]}', Link=link)
        assert query == "n=2&last=two"
        return answer(handler, 200, b'{"name":"x","tags":["three"]}')

    registry.hook = hook
    pulling.pull_all(store, f"{registry.address}/x", None, None, lines.append)
    tags = store.find(image.digest).repo_tags
    assert set(tags) == {f"{registry.address}/x:{tag}" for tag in ("one", "two", "three")}
    assert [line["id"] for line in lines if line["status"] == "Pulling from x"] == ["one", "two", "three"]
    assert len(registry.blob_requests()) == 3


@pytest.mark.parametrize("body", [b"[]", b'{"tags":5}', b'{"tags":[1]}', b"{"])
def test_a_list_of_tags_that_is_none_is_refused(store, registry, body):
    registry.hook = lambda handler: "/tags/" in handler.path and answer(handler, 200, body)
    with pytest.raises((Invalid, SystemFailure)):
        pulling.pull_all(store, f"{registry.address}/x", None, None, print)


def test_a_list_of_tags_without_an_end_is_given_up(store, registry, monkeypatch):
    monkeypatch.setattr(protocol, "_MOST_PAGES", 5)

    def hook(handler):
        link = "</v2/x/tags/list?n=1>; rel=next"
        return "/tags/" in handler.path and answer(handler, 200, b'{"tags":["a"]}', Link=link)

    registry.hook = hook
    with pytest.raises(Invalid, match="does not end"):
        pulling.pull_all(store, f"{registry.address}/x", None, None, print)
    assert len(registry.asked) == 5


def test_a_new_blob_for_a_layer_that_is_here_is_compared_with_it(store, registry, image):
    """An image whose config names the layers of another one would have their files, whatever its registry gives."""
    registry.add(image, "latest")
    pull(store, registry)
    lie = MadeImage(*image.layers, **OWN)
    for number, kind in enumerate((b"another", b"one")):
        blob = made.gzip.compress(archive(member("lie", kind)))
        lie.document["layers"][number] = made.part(made.OCI + "layer.v1.tar+gzip", blob)
        lie.blobs[made.digest(blob)] = blob
    lie.manifest = made.json.dumps(lie.document).encode()
    registry.add(lie, "lie")
    with pytest.raises(Invalid, match="is another layer than"):
        pulling.pull(store, f"{registry.address}/x", "lie", None, None, lambda line: None)
    packed_anew = made.gzip.compress(image.layers[1], 9)
    lie.document["layers"] = [
        image.document["layers"][0],
        made.part(made.OCI + "layer.v1.tar+gzip", packed_anew),
    ]
    lie.blobs[made.digest(packed_anew)] = packed_anew
    lie.manifest = made.json.dumps(lie.document).encode()
    registry.add(lie, "honest")
    assert len(pulling.pull(store, f"{registry.address}/x", "honest", None, None, lambda line: None).layers) == 2


def test_a_blob_that_is_here_is_not_another_layer_that_is_here_too(store, registry, image):
    """Nothing is downloaded of an image that gives one layer the blob of another."""
    registry.add(image, "latest")
    pull(store, registry)
    lie = MadeImage(*image.layers, **OWN)
    lie.document["layers"].reverse()
    lie.manifest = made.json.dumps(lie.document).encode()
    registry.add(lie, "lie")
    comparing._same.clear()  # as in a daemon that has just started
    with pytest.raises(Invalid, match="is another layer than"):
        pulling.pull(store, f"{registry.address}/x", "lie", None, None, lambda line: None)

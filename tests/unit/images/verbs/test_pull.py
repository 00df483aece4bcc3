"""Pulling from a registry that may do anything: platforms, tokens, redirects, breaks, lies."""

import contextlib
import gzip
import json
import pathlib
import threading
import time

import pytest

from engine.daemon.images import platform
from engine.daemon.images.registry import download, reads
from engine.daemon.images.verbs import pull as pulling
from engine.errors import EngineError, Invalid, NotFound, SystemFailure
from tests.harness.parts import settings
from tests.unit.images import made
from tests.unit.images.fakeregistry import answer, serving
from tests.unit.images.made import MadeImage, archive, directory, files_below, index, member

HOST = platform.host()
OWN = {"architecture": HOST.architecture, **({"variant": HOST.variant} if HOST.variant else {})}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(download, "_FIRST_PAUSE", 0.0)


@pytest.fixture
def image():
    return MadeImage(archive(directory("bin"), member("bin/sh", b"#!" * 5000)), archive(member("b", b"2")), **OWN)


def pull(store, registry, name="x", tag="latest", **options):
    lines = []
    found = pulling.pull(
        store,
        f"{registry.address}/{name}",
        tag,
        options.get("platform"),
        options.get("auth"),
        options.get("progress", lines.append),
    )
    return found, lines


def blob_path(image, number=0):
    return f"/v2/x/blobs/{made.digest(image.packed[number])}"


def test_an_image_is_pulled_whole_and_told_line_by_line(store, registry, image):
    registry.add(image, "latest")
    found, lines = pull(store, registry)
    assert (found.id, found.repo_tags) == (image.digest, (f"{registry.address}/x:latest",))
    assert found.descriptor == {
        "mediaType": image.document["mediaType"],
        "digest": image.digest,
        "size": len(image.manifest),
    }
    lower, upper = (pathlib.Path(store.layer_root, name) for name in found.layers)
    assert (lower / "bin/sh").read_text() == "#!" * 5000
    assert (upper / "b").read_text() == "2"
    short = made.digest(image.packed[0])[7:19]
    assert lines[0] == {"status": "Pulling from x", "id": "latest"}
    told = [line["status"] for line in lines if line.get("id") == short]
    assert told[0] == "Pulling fs layer"
    assert told[-1] == "Pull complete"
    assert told.index("Download complete") < told.index("Pull complete")
    assert lines[-2:] == [
        {"status": f"Digest: {image.digest}"},
        {"status": f"Status: Downloaded newer image for {registry.address}/x:latest"},
    ]


def test_a_second_pull_downloads_nothing_and_says_so(store, registry, image):
    registry.add(image, "latest")
    pull(store, registry)
    count = len(registry.blob_requests())
    _, lines = pull(store, registry)
    assert len(registry.blob_requests()) == count
    assert lines[-1]["status"] == f"Status: Image is up to date for {registry.address}/x:latest"


def test_a_pull_by_digest_has_that_name_and_no_tag(store, registry, image):
    registry.add(image)
    found, _ = pull(store, registry, tag=image.digest)
    assert (found.repo_tags, found.repo_digests) == ((), (f"{registry.address}/x@{image.digest}",))
    assert store.find(f"{registry.address}/x@{image.digest}").id == image.digest


def test_of_an_index_the_hosts_platform_is_taken_and_the_index_is_the_image(store, registry, image):
    other = MadeImage(archive(member("other", b"")), architecture="s390x")
    listed = index(other.entry(architecture="s390x"), image.entry(**OWN))
    registry.add(image)
    registry.add(other)
    registry.manifests |= dict.fromkeys(("latest", made.digest(listed)), (made.OCI + "index.v1+json", listed))
    found, _ = pull(store, registry)
    assert (found.id, found.manifest) == (made.digest(listed), image.digest)
    chosen, _ = pull(store, registry, platform="linux/s390x")
    assert (chosen.id, chosen.manifest, len(chosen.layers)) == (found.id, other.digest, 1)
    with pytest.raises(NotFound, match="no matching manifest for linux/mips64le in the manifest list entries"):
        pull(store, registry, platform="linux/mips64le")


def test_a_single_manifest_of_another_platform_than_asked_is_refused(store, registry, image):
    registry.add(image, "latest")
    with pytest.raises(NotFound, match="does not match the specified platform: wanted linux/s390x"):
        pull(store, registry, platform="linux/s390x")


@pytest.mark.parametrize("tag", ["latest", "sha256:" + "1" * 64])
def test_what_is_not_there_is_not_found_before_any_line_is_told(store, registry, tag):
    lines = []
    with pytest.raises(NotFound, match=r'^failed to resolve reference ".*/x[:@].*": .*: not found$'):
        pull(store, registry, tag=tag, progress=lines.append)
    assert lines == []


def test_a_registry_that_refuses_the_connection_is_told_in_dockers_words(store):
    with pytest.raises(SystemFailure) as failed:
        pulling.pull(store, "localhost:1/x", "latest", None, None, print)
    assert str(failed.value).startswith(
        'failed to resolve reference "localhost:1/x:latest": failed to do request: '
        'Head "https://localhost:1/v2/x/manifests/latest": dial tcp '
    )
    assert str(failed.value).endswith(":1: connect: connection refused")


# Mirrors


def test_what_a_mirror_does_not_have_and_an_unreachable_registry_cannot_tell_is_denied(store, registry, monkeypatch):
    """docker's words, which clients know; a mirror that failed otherwise has said nothing."""
    monkeypatch.setattr(reads, "_OFFICIAL_HOST", "localhost:1")
    store.settings = settings(registry_mirrors=(f"http://{registry.address}",), insecure_registries=())
    with pytest.raises(NotFound, match=r"^pull access denied for nobody/has, repository does not exist or may require"):
        pulling.pull(store, "nobody/has", "", None, None, print)
    registry.hook = lambda handler: answer(handler, 500, b"{}")
    with pytest.raises(SystemFailure, match="connection refused"):
        pulling.pull(store, "nobody/has", "", None, None, print)


# Authorization


def test_what_is_no_http_reaches_no_terminal_as_it_came(store, registry, image):
    def hook(handler):
        handler.close_connection = True
        return bool(handler.wfile.write(b"\x1b[2J\x00\xff" + b"x" * 5000 + b"\r\n\r\n"))

    registry.hook = hook
    with pytest.raises(SystemFailure, match=r'malformed HTTP response "\\x1b\[2J\\x00\\xffx{1,100}"$'):
        pull(store, registry)


def token_hook(registry, image, token="t0k", realm_user=None):
    def hook(handler):
        if handler.path.startswith("/token"):
            if realm_user and handler.headers.get("Authorization") != realm_user:
                return answer(handler, 401, b"{}")
            return answer(handler, 200, json.dumps({"token": token}).encode())
        if handler.headers.get("Authorization") == f"Bearer {token}":
            return False
        realm = f'Bearer realm="http://{registry.address}/token",service="s",scope="repository:x:pull"'
        return answer(handler, 401, b"{}", WWW_Authenticate=realm)

    registry.add(image, "latest")
    registry.hook = hook


def test_a_token_is_fetched_once_and_used_for_everything(store, registry, image):
    token_hook(registry, image)
    pull(store, registry)
    assert sum(path.startswith("/token") for _, path, _ in registry.asked) == 1


def test_credentials_go_to_the_token_server_and_wrong_ones_end_in_dockers_words(store, registry, image):
    token_hook(registry, image, realm_user="Basic dTpw")
    pull(store, registry, auth={"username": "u", "password": "p"})
    with pytest.raises(
        SystemFailure, match=r"^unknown: failed to resolve reference .*/x:other\": failed to authorize: "
    ):
        pull(store, registry, tag="other", auth={"username": "u", "password": "wrong"})


def test_basic_credentials_are_asked_for_and_given(store, registry, image):
    registry.add(image, "latest")
    registry.hook = lambda handler: (
        handler.headers.get("Authorization") != "Basic dTpw"
        and answer(handler, 401, b"{}", WWW_Authenticate='Basic realm="r"')
    )
    with pytest.raises(SystemFailure, match="no basic auth credentials"):
        pull(store, registry)
    pull(store, registry, auth={"username": "u", "password": "p"})


# Redirects


def test_a_redirect_to_another_host_carries_no_authorization(store, registry, image):
    with serving() as other:
        other.blobs.update(image.blobs)
        token_hook(registry, image)
        inner = registry.hook

        def hook(handler):
            if inner(handler):
                return True
            if "/blobs/" in handler.path:
                return answer(handler, 307, Location=f"http://{other.address}{handler.path}")
            return False

        registry.hook = hook
        pull(store, registry)
        assert len(other.asked) == 3
        assert all("authorization" not in headers for _, _, headers in other.asked)


def test_another_host_gets_no_password_by_asking_for_one(store, registry, image):
    """Whoever a registry sends us to may not name the token server that the password goes to (CVE-2020-15157)."""
    with serving() as other:
        registry.add(image, "latest")

        def hook(handler):
            if handler.path.startswith("/token"):
                return answer(handler, 200, b'{"token": "t"}')
            asks = f'Bearer realm="http://{other.address}/token",service="x"'
            return answer(handler, 401, WWW_Authenticate=asks)

        other.hook = hook
        where = f"http://{other.address}"
        registry.hook = lambda handler: (
            "/blobs/" in handler.path and answer(handler, 307, Location=where + handler.path)
        )
        with pytest.raises(EngineError):
            pull(store, registry, auth={"username": "u", "password": "p"})
        assert other.asked and all("authorization" not in headers for _, _, headers in other.asked)


def test_redirects_without_an_end_are_given_up(store, registry, image):
    registry.add(image, "latest")
    registry.hook = lambda handler: handler.path != "/v2/" and answer(handler, 302, Location=handler.path)
    with pytest.raises(SystemFailure, match="stopped after 10 redirects"):
        pull(store, registry)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://x/", "http://", "http://a b/"])
def test_a_redirect_to_no_web_address_is_refused(store, registry, image, location):
    registry.add(image, "latest")
    registry.hook = lambda handler: "/blobs/" in handler.path and answer(handler, 302, Location=location)
    with pytest.raises(EngineError):
        pull(store, registry)


# Mirrors


def test_a_mirror_is_asked_first_and_the_next_one_after_it(tmp_path, image):
    with serving() as first, serving() as second:
        second.add(image, "latest")
        store = made.store(tmp_path, mirrors=(f"http://{first.address}", f"http://{second.address}/"))
        found = pulling.pull(store, "busybox", "latest", None, {"username": "u", "password": "p"}, lambda line: None)
        assert found.repo_tags == ("busybox:latest",)
        assert first.asked[-1][1] == "/v2/library/busybox/manifests/latest"
        assert all("authorization" not in headers for _, _, headers in first.asked + second.asked)


# Damage


def test_a_download_that_breaks_off_goes_on_where_it_stopped(store, registry, image):
    registry.add(image, "latest")
    whole = image.packed[0]
    broken = []

    def hook(handler):
        if handler.path != blob_path(image) or broken:
            return False
        broken.append(handler.path)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(whole)))
        handler.end_headers()
        handler.wfile.write(whole[:40])
        handler.close_connection = True
        return True

    registry.hook = hook
    pull(store, registry)
    ranges = [headers.get("range") for path, headers in registry.blob_requests() if path == blob_path(image)]
    assert ranges == [None, "bytes=40-"]


def test_a_server_without_ranges_is_read_from_the_start(store, registry, image):
    registry.add(image, "latest")
    partial = store.content.partial_path(made.digest(image.packed[0]))
    with open(partial, "wb") as file:
        file.write(image.packed[0][:30])
    registry.hook = lambda handler: handler.path == blob_path(image) and answer(handler, 200, image.packed[0])
    found, _ = pull(store, registry)
    assert found.id == image.digest


def test_a_partial_file_of_another_blob_is_found_out_and_not_kept(store, registry, image):
    registry.add(image, "latest")
    with open(store.content.partial_path(made.digest(image.packed[0])), "wb") as file:
        file.write(b"x" * 30)
    found, _ = pull(store, registry)
    assert store.content.read(made.digest(image.packed[0]), 1 << 20) == image.packed[0]
    assert len(found.layers) == len(image.layers)


@pytest.mark.parametrize("lie", ["blob", "config", "short", "diff id", "manifest"])
def test_content_that_is_not_what_its_digest_says_is_refused_and_leaves_no_image(store, registry, image, lie):
    registry.add(image, "latest")
    first = made.digest(image.packed[0])
    if lie == "blob":
        registry.blobs[first] = bytes(len(image.packed[0]))
    elif lie == "config":
        registry.blobs[made.digest(image.config)] = bytes(len(image.config))
    elif lie == "short":
        registry.blobs[first] = image.packed[0][:-1]
    elif lie == "diff id":
        # Right by its digest, and yet not the layer that the config speaks of.
        other = gzip.compress(archive(member("evil", b"")), mtime=0)
        image.document["layers"][0] = made.part(image.document["layers"][0]["mediaType"], other)
        image.manifest = json.dumps(image.document).encode()
        registry.blobs[made.digest(other)] = other
        registry.add(image, "latest")
    else:
        registry.hook = lambda handler: (
            handler.command == "GET" and "/manifests/" in handler.path and answer(handler, 200, image.manifest + b" ")
        )
    with pytest.raises(EngineError):
        pull(store, registry)
    assert store.all() == []
    assert files_below_layers(store) == set()


def files_below_layers(store):
    return files_below(pathlib.Path(store.layer_root))


def test_a_client_that_goes_away_ends_the_pull(store, registry, image):
    registry.add(image, "latest")
    before = set(threading.enumerate())

    def progress(line):
        if line["status"] == "Download complete":
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        pull(store, registry, progress=progress)
    assert store.all() == []
    new = [thread.name for thread in set(threading.enumerate()) - before]
    assert not [name for name in new if name.startswith(("pull-", "read-ahead"))]  # the registry has threads too


def test_two_pulls_at_once_share_their_downloads(store, registry, image):
    registry.add(image, "latest")
    failures = []

    def one():
        try:
            pull(store, registry)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(registry.blob_requests()) == 3
    assert len(store.all()) == 1


@pytest.mark.parametrize(
    "document",
    [
        b"[]",
        b"{",
        b"[" * 100000,
        b'{"schemaVersion":1,"fsLayers":[]}',
        b'{"schemaVersion":2,"manifests":[],"layers":[]}',
        b'{"schemaVersion":2,"layers":[],"config":{"digest":"sha256:../../x","size":1}}',
        b'{"schemaVersion":2,"layers":[],"config":{"digest":5,"size":1}}',
        b'{"schemaVersion":2,"layers":{},"config":{}}',
        b'{"schemaVersion":2,"manifests":[{"digest":"x"}]}',
    ],
)
def test_a_manifest_of_the_wrong_shape_is_refused(store, registry, document):
    registry.manifests |= dict.fromkeys(("latest", made.digest(document)), (made.OCI + "manifest.v1+json", document))
    with pytest.raises((Invalid, NotFound)):
        pull(store, registry)


@pytest.mark.parametrize("size", [b"-1", b"-ffff", b"0x-1", b"zz"])
def test_a_chunk_of_no_size_brings_no_endless_body_into_memory(store, registry, image, size):
    registry.add(image, "latest")
    sent = []

    def hook(handler):
        if handler.command != "GET" or "/manifests/" not in handler.path:
            return False
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n")
        with contextlib.suppress(OSError):  # the daemon hangs up: it need not read all this
            for _ in range(64):
                sent.append(handler.wfile.write(bytes(1 << 20)))
        handler.close_connection = True
        return True

    registry.hook = hook
    with pytest.raises(SystemFailure, match="failed to read the registry's answer"):
        pull(store, registry)
    assert sum(sent) < 32 << 20


def test_an_artifact_that_is_no_image_is_refused(store, registry):
    image = MadeImage(archive(), **OWN)
    image.document["config"]["mediaType"] = "application/vnd.cncf.helm.config.v1+json"
    image.manifest = json.dumps(image.document).encode()
    registry.add(image, "latest")
    with pytest.raises(Invalid, match="unsupported image config"):
        pull(store, registry)


def test_a_daemon_that_starts_again_finds_no_half_image_and_resumes(tmp_path, registry, image):
    registry.add(image, "latest")
    store = made.store(tmp_path)
    digest = made.digest(image.packed[0])
    with open(store.content.partial_path(digest), "wb") as file:
        file.write(image.packed[0][:50])
    (tmp_path / "layers/99").mkdir()
    (tmp_path / "layers/99/half").write_text("")
    (tmp_path / "tmp/123").write_text("")
    again = made.store(tmp_path)
    again.sweep()
    assert files_below(tmp_path / "layers") == set()
    assert {path.name for path in (tmp_path / "tmp").iterdir()} == {f"sha256-{digest[7:]}.partial"}
    pull(again, registry)
    assert ("range", "bytes=50-") in [item for _, headers in registry.blob_requests() for item in headers.items()]


def test_a_tag_that_moved_leaves_the_old_image_without_a_name(store, registry, image):
    registry.add(image, "latest")
    pull(store, registry)
    newer = MadeImage(archive(member("newer", b"")), **OWN)
    registry.add(newer, "latest")
    pull(store, registry)
    assert store.find(f"{registry.address}/x").id == newer.digest
    assert store.find(image.digest).repo_tags == ()


def test_progress_is_told_at_most_ten_times_a_second(store, registry):
    big = MadeImage(archive(member("big", bytes(1 << 20) + bytes(range(256)) * 8192)), **OWN)
    registry.add(big, "latest")
    began = time.monotonic()
    _, lines = pull(store, registry)
    told = sum(line["status"] in ("Downloading", "Extracting") for line in lines)
    assert told <= 2 + (time.monotonic() - began) * 10 + 1

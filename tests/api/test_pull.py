"""POST /images/create?fromImage=: pulling from a real registry, and from one that lies."""

import base64
import hashlib
import http.server
import json
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.listening import until
from tests.harness.namespaces import Namespaces
from tests.harness.registry import (
    CONFIG_V1,
    LAYER_V2,
    MANIFEST_LIST,
    MANIFEST_V2,
    OCI_INDEX,
    Registry,
    architecture,
    digest,
)

FOREIGN = "s390x" if architecture() != "s390x" else "amd64"


@pytest.fixture(scope="module")
def shelf(registry: Registry) -> Registry:
    """The registry with images on it."""
    second = rootfs.archive([("second", 0o644, b"2\n"), ("etc/.wh.group", 0o644, b"")])
    pushed = registry.push("lib/box:1", [rootfs.busybox(), second], {"Cmd": ["cat", "/second"], "Labels": {"a": "b"}})
    registry.push("lib/oci:1", [rootfs.busybox()], {"Cmd": ["echo", "oci"]}, kind="oci")
    registry.push("lib/box:latest", [rootfs.busybox()], {"Cmd": ["echo", "latest"]})
    ours = registry.push("lib/multi:", [rootfs.busybox()], {"Cmd": ["echo", "ours"]}, kind="oci")
    theirs = registry.push("lib/multi:", [second], {"Cmd": ["echo", "theirs"]}, kind="oci", machine=FOREIGN)
    registry.push_index("lib/multi:1", {FOREIGN: theirs, architecture(): ours}, OCI_INDEX)
    listed = registry.push("lib/multi:", [rootfs.busybox()], {"Cmd": ["echo", "listed"]})
    registry.push_index("lib/multi:list", {architecture(): listed}, MANIFEST_LIST)
    registry.push_index("lib/multi:foreign", {FOREIGN: theirs}, OCI_INDEX)
    registry.box = pushed
    return registry


@pytest.fixture
def clean(daemon: Daemon) -> Iterator[Daemon]:
    """The daemon without the images of the shelf, before and after."""
    yield daemon
    for image in daemon.request("GET", "/images/json").json():
        if "busybox:latest" not in (image["RepoTags"] or []):
            daemon.request("DELETE", f"/images/{image['Id']}?force=1")


def pull(daemon: Daemon, image: str, tag: str = "", **options: object) -> list[dict]:
    """Pull; the lines of progress."""
    query = f"fromImage={image}" + (f"&tag={tag}" if tag else "")
    query += "".join(f"&{name}={value}" for name, value in options.items())
    answer = daemon.request("POST", f"/images/create?{query}", timeout=60)
    assert answer.status == 200, answer
    return answer.lines


def test_a_pull_by_tag(clean: Daemon, shelf: Registry) -> None:
    """The image runs, is named as it was pulled, and its digest is the registry's."""
    lines = pull(clean, f"{shelf.address}/lib/box", "1")
    assert lines[-1]["status"] == f"Status: Downloaded newer image for {shelf.address}/lib/box:1"
    assert {"status": f"Digest: {shelf.box.digest}"} in lines
    assert lines[0] == {"status": "Pulling from lib/box", "id": "1"}
    said = {line["status"] for line in lines if "id" in line}
    assert {"Pulling fs layer", "Download complete", "Pull complete"} <= said
    body = clean.request("GET", f"/images/{shelf.address}/lib/box:1/json").json()
    assert body["RepoDigests"] == [f"{shelf.address}/lib/box@{shelf.box.digest}"]
    assert body["Identity"] == {"Pull": [{"Repository": f"{shelf.address}/lib/box"}]}
    assert body["Config"]["Labels"] == {"a": "b"}
    assert clean.run(Image=f"{shelf.address}/lib/box:1").stdout == b"2\n"
    assert clean.run("test", "-e", "/etc/group", Image=f"{shelf.address}/lib/box:1").status == 1


def test_a_second_pull_finds_it_up_to_date(clean: Daemon, shelf: Registry) -> None:
    """In docker's words."""
    pull(clean, f"{shelf.address}/lib/box", "1")
    lines = pull(clean, f"{shelf.address}/lib/box", "1")
    assert lines[-1]["status"] == f"Status: Image is up to date for {shelf.address}/lib/box:1"


@pytest.mark.parametrize("form", ["image:tag", "tag in the query", "digest", "digest in the query", "no tag"])
def test_every_way_to_name_it(clean: Daemon, shelf: Registry, form: str) -> None:
    """fromImage and tag, together or apart."""
    base = f"{shelf.address}/lib/box"
    asked, name = {
        "image:tag": ((f"{base}:1", ""), f"{base}:1"),
        "tag in the query": ((base, "1"), f"{base}:1"),
        "digest": ((f"{base}@{shelf.box.digest}", ""), f"{base}@{shelf.box.digest}"),
        "digest in the query": ((base, shelf.box.digest), f"{base}@{shelf.box.digest}"),
        "no tag": ((base, "latest"), base),
    }[form]
    pull(clean, *asked)
    assert clean.run(Image=name).stdout == (b"latest\n" if form == "no tag" else b"2\n")


@pytest.mark.parametrize(("tag", "said"), [("1", b"ours\n"), ("list", b"listed\n")])
def test_the_platform_is_chosen_from_an_index(clean: Daemon, shelf: Registry, tag: str, said: bytes) -> None:
    """OCI index and docker's manifest list."""
    pull(clean, f"{shelf.address}/lib/multi", tag)
    assert clean.run(Image=f"{shelf.address}/lib/multi:{tag}").stdout == said


def test_a_platform_can_be_asked_for(clean: Daemon, shelf: Registry) -> None:
    """A foreign one is pulled, though it cannot run here."""
    pull(clean, f"{shelf.address}/lib/multi", "1", platform=f"linux/{FOREIGN}")
    body = clean.request("GET", f"/images/{shelf.address}/lib/multi:1/json").json()
    assert body["Architecture"] == FOREIGN


def test_an_oci_image(clean: Daemon, shelf: Registry) -> None:
    """OCI media types."""
    pull(clean, f"{shelf.address}/lib/oci", "1")
    assert clean.run(Image=f"{shelf.address}/lib/oci:1").stdout == b"oci\n"


@pytest.mark.parametrize(
    ("image", "tag", "text"),
    [
        ("lib/nope", "1", "not found"),
        ("lib/box", "nope", "not found"),
        ("lib/multi", "foreign", "no matching manifest"),
    ],
)
def test_what_the_registry_does_not_have(clean: Daemon, shelf: Registry, image: str, tag: str, text: str) -> None:
    """404 (or an error in the stream), in words; no image."""
    answer = clean.request("POST", f"/images/create?fromImage={shelf.address}/{image}&tag={tag}", checked=False)
    message = answer.message if answer.status >= 400 else answer.lines[-1]["error"]
    assert text in message
    assert clean.request("GET", f"/images/{shelf.address}/{image}:{tag}/json").status == 404


def test_a_registry_that_is_not_there(daemon: Daemon) -> None:
    """The transcript, call 220: before the 200."""
    answer = daemon.request("POST", "/images/create?fromImage=localhost:1/x&tag=latest")
    assert answer.status == 500
    assert "connection refused" in answer.message


@pytest.mark.parametrize("reference", ["BAD", "a::b", "a/UPPER", "-x", "a/", "a@sha256:12"])
def test_a_bad_reference_is_refused(daemon: Daemon, reference: str) -> None:
    """400 before anything is asked."""
    answer = daemon.request("POST", f"/images/create?fromImage={reference}")
    assert answer.status == 400
    assert answer.message.startswith("invalid reference format")


def test_pulls_of_one_image_at_once(clean: Daemon, shelf: Registry) -> None:
    """Four clients, one image, no error."""
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.append(pull(clean, f"{shelf.address}/lib/box", "1")[-1]["status"]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(status.startswith("Status: ") for status in results)


class Liar(http.server.BaseHTTPRequestHandler):
    """A registry of one image that does wrong what its server's `fault` says."""

    protocol_version = "HTTP/1.1"
    layer = rootfs.archive([("file", 0o644, bytes(300_000))])
    user = base64.b64encode(b"ann:secret").decode()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send one answer."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        """Serve the manifest, the config and the layer, or fail as told."""
        fault = self.server.fault
        self.server.asked.append((self.path, self.headers.get("Authorization"), self.headers.get("Range")))
        if self.path.startswith("/token"):
            return self.answer(200, b'{"token": "ticket", "expires_in": 60}', Content_Type="application/json")
        wanted = {"basic": f"Basic {self.user}", "token": "Bearer ticket"}.get(fault)
        if wanted and self.headers.get("Authorization") != wanted:
            here = f"http://127.0.0.1:{self.server.server_port}/token"
            challenge = {"basic": 'Basic realm="r"', "token": f'Bearer realm="{here}",service="s",scope="x"'}[fault]
            return self.answer(401, b"{}", WWW_Authenticate=challenge)
        config = json.dumps(
            {
                "architecture": architecture(),
                "os": "linux",
                "config": {},
                "rootfs": {"type": "layers", "diff_ids": [digest(self.layer)]},
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST_V2,
                "config": {"mediaType": CONFIG_V1, "size": len(config), "digest": digest(config)},
                "layers": [
                    {
                        "mediaType": LAYER_V2.removesuffix(".gzip"),
                        "size": len(self.layer),
                        "digest": digest(self.layer),
                    }
                ],
            }
        ).encode()
        if "/manifests/" in self.path:
            return self.answer(200, manifest, Content_Type=MANIFEST_V2, Docker_Content_Digest=digest(manifest))
        if digest(config) in self.path:
            return self.answer(200, config)
        if digest(self.layer) in self.path or self.path == "/elsewhere":
            return self.serve_layer(fault)
        return self.answer(200 if self.path == "/v2/" else 404, b"{}")

    do_HEAD = do_GET

    def serve_layer(self, fault: str) -> None:
        """The layer, as the fault wants it."""
        if fault == "redirect" and self.path != "/elsewhere":
            return self.answer(307, Location="/elsewhere")
        if fault == "wrong bytes":
            return self.answer(200, bytes(len(self.layer)))
        if fault == "endless":
            return self.answer(200, self.layer + bytes(200_000_000))
        start = 0
        if asked := self.headers.get("Range"):
            start = int(asked.removeprefix("bytes=").split("-")[0])
        if fault == "cut" and not self.server.cut:
            self.server.cut = True
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.layer)))
            self.end_headers()
            self.wfile.write(self.layer[:200_000])
            self.close_connection = True
            return None
        if fault == "stall":
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.layer)))
            self.end_headers()
            self.wfile.write(self.layer[:200_000])
            self.server.stalled.set()
            self.connection.recv(1)  # the daemon's end
            self.close_connection = True
            return None
        size = f"bytes {start}-{len(self.layer) - 1}/{len(self.layer)}"
        return self.answer(206, self.layer[start:], Content_Range=size) if start else self.answer(200, self.layer)


class InsideServer(http.server.ThreadingHTTPServer):
    """An HTTP server that listens in the daemon's network."""

    daemon_threads = True

    def __init__(self, namespaces: Namespaces, fault: str) -> None:
        super().__init__(("127.0.0.1", 0), Liar, bind_and_activate=False)
        self.socket.close()
        self.socket = namespaces.socket()
        self.fault, self.cut, self.asked, self.stalled = fault, False, [], threading.Event()
        self.server_bind()
        self.server_activate()


@pytest.fixture
def liar(world) -> Iterator[Callable[[str], InsideServer]]:
    """Start a lying registry."""
    started: list[InsideServer] = []

    def start(fault: str) -> InsideServer:
        started.append(InsideServer(world.namespaces, fault))
        threading.Thread(target=started[-1].serve_forever, daemon=True).start()
        return started[-1]

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_a_blob_that_is_not_what_it_should_be_is_refused(clean: Daemon, liar) -> None:
    """The digest is checked on every blob; no image appears, and no half one."""
    port = liar("wrong bytes").server_port
    answer = clean.request("POST", f"/images/create?fromImage=127.0.0.1:{port}/x&tag=1", checked=False)
    message = answer.message if answer.status >= 400 else answer.lines[-1]["error"]
    assert "digest" in message, message
    assert clean.request("GET", f"/images/127.0.0.1:{port}/x:1/json").status == 404


def test_a_blob_is_read_to_its_size_and_no_further(clean: Daemon, liar) -> None:
    """A server that sends more than it announced fills no disk."""

    def used() -> int:
        files = (os.path.join(place, name) for place, _, names in os.walk(clean.data_root) for name in names)
        return sum(os.lstat(file).st_size for file in files if os.path.lexists(file))

    port, before = liar("endless").server_port, used()
    clean.request("POST", f"/images/create?fromImage=127.0.0.1:{port}/x&tag=1", checked=False)
    assert used() < before + 100_000_000


def test_a_redirect_is_followed(clean: Daemon, liar) -> None:
    """Registries send clients to their storage so."""
    port = liar("redirect").server_port
    assert pull(clean, f"127.0.0.1:{port}/x", "1")[-1]["status"].startswith("Status: Downloaded")


def test_an_interrupted_pull_goes_on_where_it_was(clean: Daemon, liar) -> None:
    """By itself or at the next pull; the bytes that are there are not fetched again."""
    server = liar("cut")
    path = f"/images/create?fromImage=127.0.0.1:{server.server_port}/x&tag=1"
    answer = clean.request("POST", path, checked=False)
    if answer.status >= 400 or "error" in answer.lines[-1]:
        assert clean.request("GET", f"/images/127.0.0.1:{server.server_port}/x:1/json").status == 404
        answer = clean.request("POST", path)
    assert answer.lines[-1]["status"].startswith("Status: Downloaded")
    assert any(asked and not asked.startswith("bytes=0-") for _, _, asked in server.asked), server.asked


def test_a_daemon_that_is_killed_in_the_middle_of_a_pull_resumes_it_and_shows_nothing_before(crashing, liar) -> None:
    """The next daemon has no image, no blob and no layer of it: only what to go on from."""
    server, root = liar("stall"), crashing.data_root
    image = f"127.0.0.1:{server.server_port}/x"
    partial = root / "tmp" / f"{digest(Liar.layer).replace(':', '-')}.partial"
    before = {path for name in ("blobs", "layers") for path in (root / name).glob("*/*")}
    with crashing.connection() as connection:
        connection.send(f"POST /images/create?fromImage={image}&tag=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert server.stalled.wait(60)
        until(lambda: partial.exists() and partial.stat().st_size == 200_000)
        crashing.kill9()
    crashing.start()
    assert crashing.request("GET", f"/images/{image}:1/json").status == 404
    assert {path for name in ("blobs", "layers") for path in (root / name).glob("*/*")} == before
    assert list((root / "tmp").iterdir()) == [partial]
    server.fault = ""
    assert pull(crashing, image, "1")[-1]["status"].startswith("Status: Downloaded")
    assert server.asked[-1][2] == "bytes=200000-" and not list((root / "tmp").iterdir())


def test_basic_authentication(clean: Daemon, liar) -> None:
    """X-Registry-Auth is used where the registry asks for it, and is wrong where it is wrong."""
    port = liar("basic").server_port
    path = f"/images/create?fromImage=127.0.0.1:{port}/x&tag=1"

    def headers(password: str) -> dict[str, str]:
        text = json.dumps({"username": "ann", "password": password, "serveraddress": f"127.0.0.1:{port}"})
        return {"X-Registry-Auth": base64.urlsafe_b64encode(text.encode()).decode()}

    for bad in ({}, headers("wrong")):
        answer = clean.request("POST", path, None, bad, checked=False)
        assert answer.status >= 400 or "error" in answer.lines[-1]
    answer = clean.request("POST", path, None, headers("secret"))
    assert answer.lines[-1]["status"].startswith("Status: Downloaded")


def test_token_authentication(clean: Daemon, liar) -> None:
    """The registry names a realm, the realm gives a token, the token opens the registry."""
    server = liar("token")
    assert pull(clean, f"127.0.0.1:{server.server_port}/x", "1")[-1]["status"].startswith("Status: Downloaded")
    assert any(path.startswith("/token?") and "service=s" in path for path, _, _ in server.asked)


def test_credentials_do_not_follow_a_redirect_to_another_host(clean: Daemon, liar) -> None:
    """What is meant for one server is not shown to the next."""
    server = liar("redirect")
    text = json.dumps({"username": "ann", "password": "secret"})
    headers = {"X-Registry-Auth": base64.urlsafe_b64encode(text.encode()).decode()}
    clean.request("POST", f"/images/create?fromImage=127.0.0.1:{server.server_port}/x&tag=1", None, headers)
    assert all(sent is None for path, sent, _ in server.asked if path == "/elsewhere")


def test_the_blobs_are_kept_as_they_came(clean: Daemon, shelf: Registry) -> None:
    """A push must be exact later: each blob lies under its digest."""
    pull(clean, f"{shelf.address}/lib/box", "1")
    blobs = list((clean.data_root / "blobs" / "sha256").iterdir())
    assert blobs
    for blob in blobs:
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name

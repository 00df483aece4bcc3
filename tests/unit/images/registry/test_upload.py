"""One blob into a registry: whole, in chunks, mounted, resumed; and what a registry that lies gets out of it."""

import base64
import contextlib
import json
import os
import threading
from pathlib import Path

import pytest

from engine.daemon.images.content import Content
from engine.daemon.images.reference import Reference
from engine.daemon.images.registry import paced, upload
from engine.daemon.images.registry.transport import Origin
from engine.daemon.images.registry.upload import Blob, Stalled
from engine.daemon.images.registry.writes import Place, Refused, Writer
from engine.errors import EngineError, SystemFailure, Unauthorized
from tests.harness.ready import ready
from tests.unit.images import made
from tests.unit.images.fakeregistry import answer
from tests.unit.images.uploads import Shelf, taking

DATA = os.urandom(3_000_000)
PART = made.part("application/octet-stream", DATA)


@pytest.fixture
def shelf():
    with taking() as served:
        yield served


@pytest.fixture
def content(tmp_path: Path, monkeypatch) -> Content:
    """A content store with the blob; and nobody waits before trying again."""
    monkeypatch.setattr(upload, "_FIRST_PAUSE", 0.0)
    store = Content(str(tmp_path))
    store.put(DATA)
    return store


@contextlib.contextmanager
def writing(shelf: Shelf, auth: dict | None = None, sources: tuple[str, ...] = ()):
    writer = Writer(Reference.parse(f"{shelf.address}/a/b"), (), auth)
    with contextlib.closing(writer.transport):
        writer.greet(sources)
        yield writer


def send(shelf: Shelf, content: Content, auth: dict | None = None, sources: tuple[str, ...] = (), told=lambda _: None):
    """Have the blob in the repository; where it was mounted from."""
    with writing(shelf, auth, sources) as writer:
        blob = Blob(writer, PART, threading.Event(), told)
        source, opened = blob.mounted(sources, lambda source: None)
        if not source:
            blob.send(content, opened)
    assert shelf.blobs["a/b", PART["digest"]] == DATA
    return source


def test_a_blob_goes_whole_in_one_request(shelf, content):
    gone = []
    send(shelf, content, told=gone.append)
    assert shelf.methods("/a/b/") == ["POST", "PUT"]
    assert gone[-1] == len(DATA) and gone == sorted(gone)


def test_an_empty_blob_goes_too(shelf, content):
    content.put(b"")
    with writing(shelf) as writer:
        Blob(writer, made.part("x", b""), threading.Event(), lambda _: None).send(content, None)
    assert shelf.blobs["a/b", made.digest(b"")] == b""


def test_chunks_where_the_registry_asks_for_them(shelf, content, monkeypatch):
    monkeypatch.setattr(upload, "_CHUNK", 1_000_000)
    shelf.smallest = 1_200_000
    send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST", "PATCH", "PATCH", "PATCH", "PUT"]
    spans = [headers["content-range"] for method, _, headers in shelf.asked if method == "PATCH"]
    assert spans == ["0-1199999", "1200000-2399999", "2400000-2999999"]


def test_an_absurd_smallest_chunk_is_the_whole_blob(shelf, content):
    shelf.smallest = 10**18
    send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST", "PATCH", "PUT"]


def broken_once(shelf: Shelf, keep: bool):
    """A hook that ends the connection in the middle of the first PUT, and keeps or forgets what came."""
    left = [1]

    def hook(handler) -> bool:
        if handler.command != "PUT" or not left:
            return False
        left.pop()
        path = handler.path.partition("?")[0]
        shelf.uploads[path] += handler.rfile.read(1_000_000)
        if not keep:
            del shelf.uploads[path]
        handler.close_connection = True
        handler.connection.shutdown(2)
        return True

    return hook


def test_an_interrupted_upload_goes_on_where_it_broke(shelf, content):
    shelf.hook = broken_once(shelf, keep=True)
    send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST", "PUT", "GET", "PATCH", "PUT"]
    (span,) = [headers["content-range"] for method, _, headers in shelf.asked if method == "PATCH"]
    assert span == "1000000-2999999"


def test_an_upload_that_was_forgotten_begins_again(shelf, content):
    shelf.hook = broken_once(shelf, keep=False)
    send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST", "PUT", "GET", "POST", "PUT"]


def test_a_busy_registry_is_tried_again(shelf, content):
    busy = [503, 429, 500]
    shelf.hook = lambda handler: bool(handler.command == "POST" and busy) and answer(handler, busy.pop())
    send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST"] * 4 + ["PUT"]


def test_a_blob_is_mounted_from_a_neighbour(shelf, content):
    shelf.blobs["c/d", PART["digest"]] = DATA
    assert send(shelf, content, sources=("c/d",)) == "c/d"
    assert shelf.methods("/a/b/") == ["POST"]


def test_a_mount_that_became_an_upload_is_gone_on_with(shelf, content):
    assert send(shelf, content, sources=("c/d", "e/f")) == ""
    assert shelf.methods("/a/b/") == ["POST", "PUT"]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405])
def test_a_mount_that_is_refused_becomes_an_upload(shelf, content, status):
    shelf.hook = lambda handler: "mount=" in handler.path and answer(handler, status, b"{}")
    assert send(shelf, content, sources=("c/d",)) == ""
    assert shelf.methods("/a/b/") == ["POST", "POST", "PUT"]


# Locations


@pytest.mark.parametrize(
    "form",
    [
        "{path}",
        "http://{address}{path}",
        "http://{address}{path}?_state=a%2Fb&x=1",
        "//{address}{path}",
        "../../-/{number}#fragment",
    ],
)
def test_an_upload_goes_where_its_location_says(shelf, content, form):
    shelf.forward = lambda path: form.format(address=shelf.address, path=path, number=path.rpartition("/")[2])
    send(shelf, content)
    (target,) = [path for method, path, _ in shelf.asked if method == "PUT"]
    assert target.endswith(("?" if "?" not in form else "&") + f"digest=sha256%3A{PART['digest'][7:]}")


def protected(handler) -> bool:
    """A hook that lets nobody in without a password."""
    if handler.headers.get("Authorization"):
        return False
    handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    return answer(handler, 401, WWW_Authenticate='Basic realm="x"')


def test_no_other_origin_sees_the_credentials(shelf, content):
    with taking() as other:
        other.uploads["/v2/a/b/-/9"] = bytearray()
        shelf.hook = protected
        shelf.forward = lambda path: f"http://{other.address}/v2/a/b/-/9"
        with writing(shelf, {"username": "u", "password": "p"}) as writer:
            Blob(writer, PART, threading.Event(), lambda _: None).send(content, None)
        assert other.blobs["a/b", PART["digest"]] == DATA
        assert [headers.get("authorization") for _, _, headers in other.asked] == [None]
    assert any("authorization" in headers for _, _, headers in shelf.asked)


@pytest.mark.parametrize(
    "location",
    [
        "ftp://127.0.0.1/x",
        "file:///etc/passwd",
        "unix:///run/docker.sock",
        "http://[::1/x",
        "http://127.0.0.1:99999/x",
        "http://127.0.0.1:x/",
        "http://host\x01/",
        "/a b",
        "/caf\xe9",
        "",
    ],
)
def test_a_location_that_is_no_place_is_refused(shelf, content, location):
    shelf.forward = lambda path: location
    with pytest.raises(EngineError):
        send(shelf, content)
    assert "PUT" not in shelf.methods()


@pytest.mark.parametrize("location", ["/v2/x\r\n/y", "http://a\nb/", "/x\ty"])
def test_a_location_of_several_lines_is_refused(location):
    writer = Writer(Reference.parse("127.0.0.1:1/a/b"), (), None)
    with pytest.raises(SystemFailure, match="unsupported URL"):
        writer._place(location, Place(Origin("http", "127.0.0.1", 1), "/v2/"))


def test_an_upload_never_leaves_tls():
    writer = Writer(Reference.parse("registry.example/a/b"), (), None)
    here = Place(Origin("https", "registry.example", 443), "/v2/")
    with pytest.raises(SystemFailure, match="does not use TLS"):
        writer._place("http://registry.example/v2/up", here)
    assert writer._place("/v2/up", here) == Place(here.origin, "/v2/up")


# Registries that lie, or do nothing


def test_endless_redirects_end(shelf, content):
    shelf.hook = lambda handler: handler.command == "POST" and answer(handler, 307, Location=handler.path)
    with pytest.raises(SystemFailure, match="stopped after 10 redirects"):
        send(shelf, content)
    assert len(shelf.methods("/a/b/")) <= 50


def test_a_redirect_that_keeps_the_method_is_followed(shelf, content):
    def hook(handler) -> bool:
        if handler.command == "PUT" and "moved" not in handler.path:
            handler.rfile.read(int(handler.headers["Content-Length"]))
            return answer(handler, 307, Location=handler.path + "&moved=1")
        return False

    shelf.hook = hook
    send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST", "PUT", "PUT"]


def test_a_redirect_that_would_drop_the_blob_is_an_error(shelf, content):
    shelf.hook = lambda handler: (
        handler.command == "PUT" and bool(handler.rfile.read(len(DATA)) and answer(handler, 302, Location="/v2/"))
    )
    with pytest.raises(SystemFailure, match="302"):
        send(shelf, content)


@pytest.mark.parametrize("more", [-500_000, 1, 10**9])
def test_an_offset_that_lies_is_an_error(shelf, content, more):
    """Neither less than was sent is sent again for ever, nor more believed."""
    shelf.smallest = 1

    def hook(handler) -> bool:
        if handler.command not in ("PATCH", "GET") or "/-/" not in handler.path:
            return False
        said = int(handler.headers.get("Content-Length") or 0) + more
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        return answer(handler, 202, Location=handler.path, Range=f"0-{max(said, len(DATA) + 1) - 1}")

    shelf.hook = hook
    with pytest.raises(Refused, match="but only"):
        send(shelf, content)
    assert len(shelf.asked) < 30


def test_a_registry_that_hangs_up_after_each_answer(shelf, content, sockets):
    """Without having said that it would: a blob is sent on a new connection then, and once."""

    def hook(handler) -> bool:
        shelf.serve(handler)
        handler.close_connection = True
        return True

    shelf.hook = hook
    with writing(shelf) as writer:
        opened = writer.start()
        # The end of a connection takes its way.
        assert all(each.fileno() < 0 or ready(each, 30) for each in sockets)
        Blob(writer, PART, threading.Event(), lambda _: None).send(content, opened)
    assert shelf.methods("/a/b/") == ["POST", "PUT"]


def test_another_digest_is_an_error(shelf, content):
    def hook(handler) -> bool:
        if handler.command != "PUT":
            return False
        handler.rfile.read(len(DATA))
        return answer(handler, 201, Docker_Content_Digest=made.digest(b"other"))

    shelf.hook = hook
    with pytest.raises(Refused, match="the registry stored"):
        send(shelf, content)
    assert shelf.methods("/a/b/") == ["POST", "PUT"]


def test_a_registry_that_stops_reading_is_given_up(shelf, content, monkeypatch):
    monkeypatch.setattr(upload, "_WINDOW", 0.3)
    content.put(bytes(30_000_000))
    released = threading.Event()
    shelf.hook = lambda handler: handler.command == "PUT" and released.wait(60)
    try:
        with writing(shelf) as writer, pytest.raises(Stalled, match="stopped reading"):
            part = made.part("x", bytes(30_000_000))
            Blob(writer, part, threading.Event(), lambda _: None).send(content, None)
    finally:
        released.set()
    assert shelf.methods("/a/b/") == ["POST", "PUT"]


def test_an_answer_in_the_middle_ends_the_sending(shelf, content):
    """The registry says no and reads no further: its words are the error, not the broken pipe."""
    content.put(bytes(30_000_000))
    part = made.part("x", bytes(30_000_000))
    words = b'{"errors": [{"code": "SIZE_INVALID", "message": "too much of it"}]}'
    shelf.hook = lambda handler: handler.command == "PUT" and answer(handler, 413, words)
    with writing(shelf) as writer, pytest.raises(Refused, match="size invalid: too much of it"):
        Blob(writer, part, threading.Event(), lambda _: None).send(content, None)


def test_a_giant_answer_is_not_read(shelf, content):
    def hook(handler) -> bool:
        if handler.command != "POST":
            return False
        handler.wfile.write(b"HTTP/1.1 400 No\r\nContent-Length: 1000000000000\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(1000):
                handler.wfile.write(bytes(1 << 20))
            raise AssertionError("all of it was read")
        handler.close_connection = True
        return True

    shelf.hook = hook
    with pytest.raises(Refused, match="400 No"):
        send(shelf, content)


# Rights


def test_a_token_that_ends_in_the_middle_is_renewed(shelf, content):
    """Every token is good for two requests."""
    left = {}

    def hook(handler) -> bool:
        if handler.path.startswith("/token"):
            token = f"t{len(left)}"
            left[token] = 2
            return answer(handler, 200, json.dumps({"token": token}).encode())
        token = handler.headers.get("Authorization", "").removeprefix("Bearer ")
        if left.get(token, 0):
            left[token] -= 1
            return False
        handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        challenge = f'Bearer realm="http://{shelf.address}/token",service="s",scope="repository:a/b:pull"'
        return answer(handler, 401, WWW_Authenticate=challenge)

    shelf.hook = hook
    shelf.smallest = 1
    send(shelf, content, {"username": "u", "password": "p"}, sources=("c/d",))
    asked = [path for path in (path for _, path, _ in shelf.asked) if path.startswith("/token")]
    # What we are going to do, not only what this one request takes.
    assert asked[0] == "/token?scope=repository%3Aa%2Fb%3Apull%2Cpush&scope=repository%3Ac%2Fd%3Apull&service=s"
    assert 2 <= len(asked) <= 4
    basic = base64.b64encode(b"u:p").decode()
    assert next(headers for _, path, headers in shelf.asked if path in asked)["authorization"] == f"Basic {basic}"


def test_an_identity_token_pushes(shelf, content):
    """It is exchanged by POST, for the same rights."""
    forms = []

    def hook(handler) -> bool:
        if handler.path == "/token":
            forms.append(handler.rfile.read(int(handler.headers["Content-Length"])).decode())
            return answer(handler, 200, b'{"access_token": "t"}')
        if handler.headers.get("Authorization") == "Bearer t":
            return False
        return answer(handler, 401, WWW_Authenticate=f'Bearer realm="http://{shelf.address}/token",service="s"')

    shelf.hook = hook
    send(shelf, content, {"identitytoken": "kept"})
    (form,) = forms
    assert form == (
        "grant_type=refresh_token&refresh_token=kept&client_id=engine&service=s&scope=repository%3Aa%2Fb%3Apull%2Cpush"
    )


def test_a_token_server_that_wants_no_neighbours(shelf, content):
    """Asked for more than it gives it gives nothing; then no mount is tried with rights that we do not have."""

    def hook(handler) -> bool:
        if handler.path.startswith("/token"):
            status = 403 if handler.path.count("scope=") > 1 else 200
            return answer(handler, status, b'{"token": "t"}')
        if handler.headers.get("Authorization") == "Bearer t" and "from=" not in handler.path:
            return False
        scope = "repository:a/b:pull,push" + (" repository:c/d:pull" if "from=" in handler.path else "")
        challenge = f'Bearer realm="http://{shelf.address}/token",service="s",scope="{scope}"'
        return answer(handler, 401, WWW_Authenticate=challenge)

    shelf.hook = hook
    assert send(shelf, content, sources=("c/d",)) == ""
    assert shelf.methods("/a/b/")[-2:] == ["POST", "PUT"]


def test_an_answer_that_trickles_is_given_up(shelf, content, monkeypatch):
    """A byte at a time is no silence; the whole head has its time."""
    monkeypatch.setattr(upload, "_PATIENCE", 0.1)
    ended = threading.Event()

    def hook(handler) -> bool:
        if handler.command != "POST":
            return False
        monkeypatch.setattr(paced, "_DOCUMENT_SECONDS", 0.2)  # what comes before it may take its time
        with contextlib.suppress(OSError):
            for letter in b"HTTP/1.1 202 Accepted\r\n" + b"X: y\r\n" * 1000:
                handler.wfile.write(bytes([letter]))
                if ended.wait(0.02):
                    break
        handler.close_connection = True
        return True

    shelf.hook = hook
    try:
        with pytest.raises(SystemFailure):
            send(shelf, content)
    finally:
        ended.set()
    assert shelf.methods("/a/b/") == ["POST"]


def test_a_registry_that_never_lets_us_in(shelf, content):
    shelf.hook = lambda handler: answer(handler, 401, WWW_Authenticate='Basic realm="x"')
    with pytest.raises(Unauthorized):
        send(shelf, content, {"username": "u", "password": "wrong"})
    assert len(shelf.asked) <= 4

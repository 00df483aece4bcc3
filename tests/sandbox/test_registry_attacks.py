"""Attacks of a registry on who pulls from it: names that are paths, documents that are two things, answers without end.

The store is asked directly, with a registry in a thread of the test; each test is named after the published flaw it
repeats. More of the kind are in tests/unit/images/registries.
"""

import contextlib
import http.server
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.registry.auth import Credentials
from engine.daemon.images.registry.reads import Registry
from engine.daemon.images.verbs import pull as pulling
from engine.errors import EngineError, Invalid, Unauthorized
from tests.unit.images import made
from tests.unit.images.fakeregistry import FakeRegistry, answer, serving
from tests.unit.images.made import OCI, MadeImage, archive, directory

UP = "../" * 12
NAMES = (
    f"sha256:{UP}planted",
    "sha256:",
    f"sha256:{'a' * 63}/",
    f"sha256:{'A' * 64}",
    f"{UP}planted",
    "md5:" + "0" * 32,
)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A registry with nothing in it."""
    with serving() as made_one:
        yield made_one


@pytest.fixture
def store(tmp_path: Path) -> Catalogue:
    """A store below a directory of its own."""
    (tmp_path / "root").mkdir()
    return made.store(tmp_path / "root")


def pull(store: Catalogue, registry: FakeRegistry, tag: str = "latest") -> object:
    return pulling.pull(store, f"{registry.address}/x", tag, None, {}, lambda _: None)


def hold(registry: FakeRegistry, document: dict, kind: str = "manifest") -> None:
    """Answer `latest` with the document."""
    data = json.dumps(document).encode()
    registry.manifests |= dict.fromkeys(("latest", made.digest(data)), (f"{OCI}{kind}.v1+json", data))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["config", "layer", "index", "header"])
def test_cve_2024_3727_a_digest_is_no_path(
    store: Catalogue, registry: FakeRegistry, tmp_path: Path, name: str, place: str
) -> None:
    """Neither on the disk nor in what is asked of the registry, with its credentials, next."""
    image = MadeImage(archive(directory("d")))
    registry.add(image)
    document = json.loads(image.manifest)
    if place == "header":
        registry.hook = lambda handler: (
            "/manifests/" in handler.path
            and answer(handler, 200, image.manifest, Content_Type=f"{OCI}manifest.v1+json", Docker_Content_Digest=name)
        )
    elif place == "index":
        entry = {**image.entry(architecture="amd64"), "digest": name}
        hold(registry, {"schemaVersion": 2, "mediaType": f"{OCI}index.v1+json", "manifests": [entry]}, "index")
    else:
        part = document["config"] if place == "config" else document["layers"][0]
        part["digest"] = name
        hold(registry, document)
    with contextlib.suppress(EngineError):
        pull(store, registry)
        assert place == "header", "what has such a name is no image"
    assert not [path for _, path, _ in registry.asked if ".." in path or not path.startswith("/v2/")]
    assert [path.name for path in tmp_path.iterdir()] == ["root"] and not list(tmp_path.rglob("planted*"))


@pytest.mark.parametrize("kind", ["manifest", "index"])
def test_cve_2021_41190_a_document_is_one_thing_alone(store: Catalogue, registry: FakeRegistry, kind: str) -> None:
    """One that is a manifest to one reader and an index to the next is refused, whatever the header calls it."""
    image = MadeImage(archive(directory("d")))
    registry.add(image)
    both = {**json.loads(image.manifest), "manifests": [image.entry(architecture="amd64")]}
    for media_type in (f"{OCI}manifest.v1+json", f"{OCI}index.v1+json", None):
        hold(registry, {**both, "mediaType": media_type} if media_type else both, kind)
        with pytest.raises(Invalid):
            pull(store, registry)
    assert not registry.blob_requests()


@pytest.mark.parametrize("what", ["manifest", "error", "token"])
def test_cve_2020_1702_an_answer_without_end_is_not_read(store: Catalogue, registry: FakeRegistry, what: str) -> None:
    """A manifest, the words of a refusal, a token: each has its bound, and the connection is closed at it."""
    sent = []
    floods = []

    def flood(handler: http.server.BaseHTTPRequestHandler, status: bytes) -> bool:
        floods.append(status)
        handler.wfile.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 1099511627776\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(64):
                sent.append(handler.wfile.write(b'{"a":"' + b"x" * (1 << 20)))
        handler.close_connection = True
        return True

    def hook(handler: http.server.BaseHTTPRequestHandler) -> bool:
        if handler.path.startswith("/token"):
            return flood(handler, b"200 OK")
        if what == "token":
            asks = f'Bearer realm="http://{registry.address}/token",service="x"'
            return answer(handler, 401, WWW_Authenticate=asks)
        if "/manifests/" in handler.path and handler.command == "GET":
            return flood(handler, b"200 OK" if what == "manifest" else b"500 Oh")
        return False

    registry.hook = hook
    registry.add(MadeImage(archive()), "latest")
    with pytest.raises(EngineError):
        pull(store, registry)
    assert floods and sum(sent) < 32 << 20


def test_cve_2019_10214_no_password_goes_to_a_token_server_without_tls(registry: FakeRegistry) -> None:
    """Where the registry itself has TLS, whatever it says of where its tokens are to be had."""
    asker = Registry("registry.example.com", "https", "x", (), Credentials("u", "p"))
    # On the loopback address TLS is not insisted on; by any other name it is.
    with pytest.raises(Unauthorized, match="does not use TLS"):
        asker._fetch_token("http://tokens.example.com/token", {"Authorization": "Basic dTpw"}, None)
    assert not registry.asked

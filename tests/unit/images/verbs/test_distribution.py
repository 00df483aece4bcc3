"""A look at an image in its registry: descriptors, platforms, and whom to believe."""

import json

import pytest

from engine.daemon.images.verbs.distribution import inspect
from engine.errors import Invalid, NotFound, SystemFailure, Unauthorized
from tests.harness.parts import settings
from tests.unit.images import made
from tests.unit.images.fakeregistry import answer, serving

SETTINGS = settings()
IMAGE = made.MadeImage(made.archive(made.member("x")), architecture="arm", variant="v7")


@pytest.fixture
def registry():
    with serving() as served:
        served.add(IMAGE, "1", "latest")
        yield served


def test_an_image_of_one_platform(registry):
    expected = {
        "Descriptor": made.part(made.OCI + "manifest.v1+json", IMAGE.manifest),
        "Platforms": [{"architecture": "arm", "os": "linux", "variant": "v7"}],
    }
    for name in ("a/b", "a/b:1", f"a/b@{IMAGE.digest}"):
        assert inspect(SETTINGS, f"{registry.address}/{name}", None) == expected


def test_an_index(registry):
    index = made.index(
        IMAGE.entry(architecture="arm", variant="v7"),
        IMAGE.entry(architecture="amd64", **{"os.version": "1", "os.features": ["x"]}),
        made.part(made.OCI + "manifest.v1+json", b"without a platform"),
    )
    registry.manifests["multi"] = registry.manifests[made.digest(index)] = (made.OCI + "index.v1+json", index)
    found = inspect(SETTINGS, f"{registry.address}/a/b:multi", None)
    assert found["Descriptor"] == made.part(made.OCI + "index.v1+json", index)
    assert found["Platforms"] == [
        {"architecture": "arm", "os": "linux", "variant": "v7"},
        {"architecture": "amd64", "os": "linux", "os.version": "1", "os.features": ["x"]},
    ]


@pytest.mark.parametrize("config", [b"no JSON", b"[]", b'{"os": 1}', None])
def test_an_artifact_has_no_platforms(registry, config):
    data = config or b"gone"
    part = made.part("application/vnd.example", data)
    if config:
        registry.blobs[part["digest"]] = config
    document = {"schemaVersion": 2, "mediaType": made.OCI + "manifest.v1+json", "config": part, "layers": []}
    manifest = json.dumps(document).encode()
    registry.manifests["art"] = registry.manifests[made.digest(manifest)] = (document["mediaType"], manifest)
    assert inspect(SETTINGS, f"{registry.address}/a/b:art", None)["Platforms"] == []


def test_names_that_are_not_there(registry):
    with pytest.raises(NotFound, match="manifest unknown: manifest unknown"):
        inspect(SETTINGS, f"{registry.address}/a/b:nope", None)


def test_names_that_are_none():
    with pytest.raises(Invalid, match="must be lowercase"):
        inspect(SETTINGS, "Bad", None)
    for name in ("a" * 64, "sha256:" + "a" * 64):
        with pytest.raises(SystemFailure, match="no manifest found for full image ID"):
            inspect(SETTINGS, name, None)


def test_a_registry_that_wants_a_password(registry):
    registry.hook = lambda handler: (
        handler.headers.get("Authorization") != "Basic dTpw"
        and answer(handler, 401, WWW_Authenticate='Basic realm="x"')
    )
    name = f"{registry.address}/a/b:1"
    with pytest.raises(Unauthorized, match=r"^no basic auth credentials$"):
        inspect(SETTINGS, name, None)
    with pytest.raises(Unauthorized, match=r"^unauthorized: "):
        inspect(SETTINGS, name, {"username": "u", "password": "wrong"})
    assert inspect(SETTINGS, name, {"username": "u", "password": "p"})["Descriptor"]["digest"] == IMAGE.digest


def test_a_mirror_is_asked_first(registry):
    registry.add(IMAGE, "latest")
    mirrored = settings(registry_mirrors=(f"http://{registry.address}/",))
    assert inspect(mirrored, "busybox", None)["Descriptor"]["digest"] == IMAGE.digest
    assert registry.asked[-1][1].startswith("/v2/library/busybox/")


def test_nobody_there():
    """Transcript 228."""
    with pytest.raises(SystemFailure) as failure:
        inspect(SETTINGS, "localhost:1/x", None)
    assert str(failure.value) == 'Get "http://localhost:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused'

"""Looking at an image of a registry without pulling it."""

import json

import pytest

from engine.daemon.images.verbs import resolution
from engine.errors import Invalid, NotFound, SystemFailure
from tests.unit.images.made import OCI, MadeImage, archive, digest, index, member

KINDS = ("s390x", "riscv64")


@pytest.fixture
def images():
    return {kind: MadeImage(archive(member("a", kind.encode())), architecture=kind) for kind in KINDS}


def listed(registry, images, tag="latest"):
    """The digest of an index of the images, which the registry has under the tag."""
    for image in images.values():
        registry.add(image)
    data = index(*(image.entry(architecture=kind) for kind, image in images.items()))
    registry.manifests[digest(data)] = registry.manifests[tag] = (OCI + "index.v1+json", data)
    return digest(data)


@pytest.mark.parametrize("kind", KINDS)
def test_the_document_of_the_platform_comes_and_nothing_is_kept(store, registry, images, kind):
    name = listed(registry, images)
    found = resolution.resolve(store, f"{registry.address}/x", f"linux/{kind}", None)
    assert (found.digest, found.config["architecture"]) == (name, kind)
    assert json.loads(found.data) == found.config
    assert not store.content.has(images[kind].digest)
    assert not store.content.has(digest(found.data))
    assert not [path for path, _ in registry.blob_requests() if path.endswith(digest(images[kind].packed[0]))]


def test_a_manifest_alone_needs_no_platform(store, registry, images):
    registry.add(images["s390x"], "latest")
    found = resolution.resolve(store, f"{registry.address}/x:latest", "", None)
    assert (found.digest, found.config["architecture"]) == (images["s390x"].digest, "s390x")


def test_what_is_not_there_is_refused(store, registry, images):
    listed(registry, images)
    with pytest.raises(NotFound, match="linux/arm64"):
        resolution.resolve(store, f"{registry.address}/x", "linux/arm64", None)
    with pytest.raises(NotFound):
        resolution.resolve(store, f"{registry.address}/x:absent", "", None)
    with pytest.raises(Invalid):
        resolution.resolve(store, "No Reference", "", None)


def test_what_is_not_what_its_digest_says_is_refused(store, registry, images):
    image = images["s390x"]
    registry.add(image, "latest")
    registry.blobs[digest(image.config)] = image.config.replace(b"s390x", b"s391x")
    with pytest.raises(SystemFailure, match="digest"):
        resolution.resolve(store, f"{registry.address}/x", "", None)


def test_indexes_inside_one_another_end(store, registry, images):
    name = listed(registry, images)
    for _ in range(6):
        entry = {"mediaType": OCI + "index.v1+json", "digest": name, "size": 9}
        data = index(entry | {"platform": {"os": "linux", "architecture": "s390x"}})
        name = digest(data)
        registry.manifests[name] = registry.manifests["latest"] = (OCI + "index.v1+json", data)
    with pytest.raises(Invalid, match="too many indexes"):
        resolution.resolve(store, f"{registry.address}/x", "linux/s390x", None)

"""Images in a directory of the client: how they are named, which one of an index is taken, and what is refused."""

import json

import pytest

from engine.daemon.buildkit import layoutsource
from engine.daemon.images import platform as platforms
from engine.errors import Invalid, NotFound
from tests.unit.images.made import MadeImage, archive, digest, index, member

NAME = "sha256:" + "a" * 64


class Store:
    """A client's content store, of these blobs."""

    def __init__(self, *blobs: bytes) -> None:
        self.blobs = {digest(blob): blob for blob in blobs}

    def read(self, name: str, limit: int) -> bytes:
        if name not in self.blobs:
            raise NotFound(name)
        assert len(self.blobs[name]) <= limit
        return self.blobs[name]


@pytest.mark.parametrize(
    ("place", "store"),
    [(f"x@{NAME}", "oci:x"), (f"x:latest@{NAME}", "oci:x"), (f"h:5000/x:1@{NAME}", "oci:h:5000/x")],
)
def test_a_name(place: str, store: str) -> None:
    assert layoutsource.name_of(place) == (store, NAME)


@pytest.mark.parametrize("place", ["x", "x:1", f"@{NAME}", "x@sha256:1", "x@"])
def test_no_name(place: str) -> None:
    with pytest.raises(Invalid):
        layoutsource.name_of(place)


def test_the_platforms_image_is_taken_of_an_index() -> None:
    images = {kind: MadeImage(archive(member(kind, b"x")), architecture=kind) for kind in ("amd64", "s390x")}
    listed = index(*(image.entry(architecture=kind) for kind, image in images.items()))
    blobs = [blob for image in images.values() for blob in (image.manifest, image.config)]
    store = Store(listed, *blobs)
    for kind, image in images.items():
        found = layoutsource.read(store, digest(listed), platforms.parse(f"linux/{kind}"))  # type: ignore[arg-type]
        assert found.config == json.loads(image.config)
        assert found.diff_ids == tuple(digest(layer) for layer in image.layers)
        assert [part["digest"] for part in found.layers] == [digest(layer) for layer in image.packed]
    with pytest.raises(NotFound, match="linux/riscv64"):
        layoutsource.read(store, digest(listed), platforms.parse("linux/riscv64"))  # type: ignore[arg-type]


def test_a_config_that_is_not_of_the_layers_is_refused() -> None:
    image = MadeImage(archive(member("a", b"x")))
    wrong = {**image.document, "layers": image.document["layers"] * 2}
    data = json.dumps(wrong).encode()
    with pytest.raises(Invalid, match="mismatched"):
        layoutsource.read(Store(data, image.config), digest(data), platforms.host())  # type: ignore[arg-type]

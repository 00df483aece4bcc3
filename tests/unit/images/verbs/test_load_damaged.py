"""Loading into a store that an earlier release or a disk has damaged: no blob is believed, and an archive mends it."""

import gzip
import json
import pathlib

import pytest

from engine.daemon.images.layers import comparing
from engine.daemon.images.verbs import load as loading
from engine.daemon.images.verbs import remove
from engine.errors import Invalid
from tests.unit.images import made
from tests.unit.images.made import MadeImage, archive, layout, member
from tests.unit.images.verbs.test_load import NAMED, listed, load


@pytest.fixture
def image():
    """Of two layers."""
    return MadeImage(archive(member("bin/sh", b"sh")), archive(member("b", b"2")))


def of_an_earlier_release(store, data, monkeypatch):
    """Load an archive as releases did that took what it had in the place of a known layer's blob."""
    with monkeypatch.context() as patched:
        patched.setattr(loading._Loading, "_file", lambda self, name, _: self._members.find(name))
        patched.setattr(comparing, "check_same", lambda *_: None)
        load(store, data)
    comparing._same.clear()


OTHERS = {
    "empty": lambda _: b"",
    "another tar": lambda _: archive(member("evil")),
    "another tar, packed": lambda _: gzip.compress(archive(member("evil"))),
    "no end": lambda layer: gzip.compress(layer)[:-9],
}


@pytest.mark.parametrize("good", [True, False], ids=["beside a good image", "alone"])
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_an_earlier_release_took_for_a_layer_is_not_believed(store, image, monkeypatch, good, other):
    load(store, layout(image, NAMED))
    damaged = listed(image, ["a.tar", "b.tar"], ("a.tar", other(image.layers[0])), ("b.tar", image.layers[1]))
    of_an_earlier_release(store, damaged, monkeypatch)
    above = MadeImage(*image.layers, archive(member("c", b"3")))
    new = ("c.tar", above.layers[2])
    if not good:
        remove.remove(store, "busybox:1", True, True, lambda _: ())
        for data in (damaged, listed(above, ["", "b.tar", "c.tar"], ("b.tar", image.layers[1]), new)):
            with pytest.raises(Invalid, match=r"is missing|is another layer"):
                load(store, data)
    whole = [("a.tar", image.layers[0]), ("b.tar", image.layers[1]), new]
    for files in ([new], whole) if good else (whole, [new]):  # the archive's own blobs are of use to the next one
        (found,), _ = load(store, listed(above, ["a.tar", "b.tar", "c.tar"], *files))
        parts = json.loads(store.content.read(found.id, 10000))["layers"]
        right = zip(map(made.digest, above.layers), map(made.digest, above.packed), strict=True)
        assert all(part["digest"] in each for part, each in zip(parts, right, strict=True))


def test_a_blob_that_an_image_wrongly_has_for_the_layer_is_read(store, image, monkeypatch):
    load(store, layout(image, NAMED))
    evil = archive(member("evil"))
    of_an_earlier_release(store, listed(MadeImage(image.layers[0]), ["a.tar"], ("a.tar", evil)), monkeypatch)
    swapped = MadeImage(image.layers[0])
    swapped.document["layers"] = [made.part(made.OCI + "layer.v1.tar", evil)]
    swapped.manifest = json.dumps(swapped.document).encode()
    swapped.blobs = {made.digest(data): data for data in (evil, swapped.config)}
    with pytest.raises(Invalid, match="is another layer than"):
        load(store, layout(swapped, {"io.containerd.image.name": "docker.io/library/swapped:1"}))


@pytest.mark.parametrize("form", ["layout", "docker-archive"])
@pytest.mark.parametrize("damage", ["one bit", "cut", "empty"])
def test_a_damaged_blob_is_mended_by_an_archive_that_has_it(store, form, damage):
    image = MadeImage(archive(member("bin/sh", b"sh" * 999_999)), archive(member("b", b"2")))
    archived = layout(image, NAMED) if form == "layout" else made.docker_archive(image, ["a:1"])
    load(store, archived)
    blob = image.packed[0] if form == "layout" else image.layers[0]
    path = pathlib.Path(store.content.path(made.digest(blob)))
    right = path.read_bytes()
    wrong = {"one bit": right[:-70] + bytes((right[-70] ^ 1,)) + right[-69:], "cut": right[:-51], "empty": b""}[damage]
    path.write_bytes(wrong)
    comparing._same.clear()
    with pytest.raises(Invalid, match="is missing"):
        load(store, listed(image, ["", "b.tar"], ("b.tar", image.layers[1])))
    load(store, archived)
    assert path.read_bytes() == right
    (found,), _ = load(store, listed(image, ["", "b.tar"], ("b.tar", image.layers[1])))
    assert made.digest(right) in store.content.read(found.id, 10000).decode()


def test_an_archive_that_is_damaged_itself_changes_nothing_in_the_store(store, image):
    load(store, layout(image, NAMED))
    blob = image.packed[0]
    image.lies[made.digest(blob)] = blob[:-1] + bytes((blob[-1] ^ 1,))
    load(store, layout(image, NAMED))
    assert pathlib.Path(store.content.path(made.digest(blob))).read_bytes() == blob


def test_of_many_images_with_a_layer_as_few_are_read_as_are_needed(store, image, monkeypatch):
    for number in range(4):
        each = MadeImage(*image.layers, archive(member(str(number), b"1")))
        load(store, layout(each, {"io.containerd.image.name": f"docker.io/library/{number}:1"}))
    above = MadeImage(*image.layers, archive(member("c", b"3")))
    read = []
    whole = store.content.read
    monkeypatch.setattr(store.content, "read", lambda digest, limit: read.append(digest) or whole(digest, limit))
    ids = {image.manifest for image in store.all()}
    load(store, listed(above, ["", "", "c.tar"], ("c.tar", above.layers[2])))
    assert len(ids & set(read)) == 1

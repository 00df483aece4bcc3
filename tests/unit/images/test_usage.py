"""How much of the disk images take: what they share is there once, and is free when the last of them is unused."""

import io

import pytest

from engine.daemon.images import usage
from engine.daemon.images.verbs import listing, load
from tests.unit.images.made import MadeImage, archive, layout, member
from tests.unit.images.several import import_


@pytest.fixture
def pair(store):
    """Two images upon one layer of 50,000 bytes; the lower one first."""
    base = archive(member("base", b"b" * 50_000))
    upon = archive(member("upon", b"u" * 70_000))
    return [
        load.load(store, io.BytesIO(layout(MadeImage(*layers))), lambda line: None)[0]
        for layers in ((base,), (base, upon))
    ]


def test_what_is_shared_counts_once(store, pair):
    lower, upper = pair
    alone = import_(store, "alone")
    shown = {image["Id"]: image for image in listing.images_json(store, {}, shared_size=True)}
    assert shown[lower.id]["SharedSize"] == shown[upper.id]["SharedSize"] > 50_000
    assert shown[alone.id]["SharedSize"] == 0
    own = sum(image["Size"] - image["SharedSize"] for image in shown.values())
    assert usage.measure(store.database, ())[0] == own + shown[lower.id]["SharedSize"]


def test_what_is_shared_is_free_with_the_last(store, pair):
    lower, upper = pair
    total, none = usage.measure(store.database, ())
    assert none == 0 and usage.measure(store.database, {lower.id, upper.id}) == (total, total)
    assert usage.measure(store.database, {lower.id})[1] < 5000, "its manifest and config"
    assert 70_000 < usage.measure(store.database, {upper.id})[1] < total - 50_000


def test_an_image_that_is_held_for_a_container_is_on_the_disk_and_not_free(store, pair):
    lower, _upper = pair
    before = usage.measure(store.database, ())[0]
    store.forget(lower.id, hold_layers=True)
    total, free = usage.measure(store.database, {image.id for image in store.all()})
    assert total > before - 5000 and free == pytest.approx(total - 50_000, abs=20_000)

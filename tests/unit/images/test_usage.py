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
    assert usage.measure(store.database) == own + shown[lower.id]["SharedSize"]


def test_an_image_that_is_held_for_a_container_is_on_the_disk(store, pair):
    lower, _upper = pair
    before = usage.measure(store.database)
    store.forget(lower.id, hold_layers=True)
    assert before >= usage.measure(store.database) > before - 5000

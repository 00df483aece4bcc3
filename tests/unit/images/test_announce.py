"""What the image store tells of: each change of what is there, with dockerd's actions and names."""

import io

import pytest

from engine.daemon.images import platform
from engine.daemon.images.verbs import load as loading
from engine.daemon.images.verbs import pull, remove
from tests.unit.images.made import MadeImage, archive, layout, member
from tests.unit.images.test_catalogue import NOBODY, container, import_, load, using


@pytest.fixture
def told(store, monkeypatch):
    """What is published, as (action, actor, attributes)."""
    heard = []
    monkeypatch.setattr(store, "_publish", lambda kind, *rest: heard.append((kind, *rest)))
    yield heard
    assert {kind for kind, *_ in heard} <= {"image"}


def brief(told):
    """Without the kind; what was told is forgotten."""
    rest = [tuple(event[1:]) for event in told]
    told.clear()
    return rest


def test_an_import_is_a_tag_and_an_import(store, told):
    """With the labels that its changes gave it (transcript 236)."""
    image = import_(store, repo="a", tag="1", changes=["LABEL k=v"])
    assert brief(told) == [
        ("tag", image.id, {"k": "v", "name": "a:1"}),
        ("import", image.id, {"k": "v", "name": image.id}),
    ]


def test_each_image_of_an_archive_is_loaded(store, told):
    """Its names are not tags of their own."""
    image = load(store, "a:1", "x")
    assert brief(told) == [("load", image.id, {"name": image.id})]


def test_a_name_goes_and_the_image_with_the_last(store, told):
    """untag for each name, delete for the image (transcript 217, 234)."""
    image = load(store, "a:1", "x")
    made = MadeImage(archive(member("x", b"")))
    loading.load(store, io.BytesIO(layout(made, {"io.containerd.image.name": "b:2"})), lambda line: None)
    told.clear()
    remove.remove(store, "a:1", False, False, NOBODY)
    assert brief(told) == [("untag", image.id, {"name": "a:1"})]
    remove.remove(store, "b:2", False, False, NOBODY)
    assert brief(told) == [("untag", image.id, {"name": "b:2"}), ("delete", image.id, {"name": image.id})]


def test_an_image_without_a_name_is_untagged_too(store, told):
    """dockerd tells it of the images that builds leave (transcript 308)."""
    image = load(store, "", "x")
    told.clear()
    remove.remove(store, image.id, False, False, NOBODY)
    assert brief(told) == [("untag", image.id, {"name": image.id}), ("delete", image.id, {"name": image.id})]


def test_an_image_in_use_only_loses_its_name(store, told):
    """Though the removal was forced."""
    image = load(store, "a:1", "x")
    told.clear()
    remove.remove(store, "a:1", True, False, using(container(image)))
    assert brief(told) == [("untag", image.id, {"name": "a:1"})]


def test_a_pull_is_told_by_the_name_that_was_pulled(store, registry, told):
    """The actor is the whole reference, the name is without its tag."""
    image = MadeImage(archive(member("b", b"2")), config={"Labels": {"k": "v"}}, **own_platform())
    registry.add(image, "latest")
    pull.pull(store, f"{registry.address}/x", "latest", None, None, lambda line: None)
    name = f"{registry.address}/x"
    assert brief(told) == [("pull", f"{name}:latest", {"k": "v", "name": name})]


def own_platform():
    """The host's platform, as an image's config says it."""
    host = platform.host()
    return {"architecture": host.architecture, **({"variant": host.variant} if host.variant else {})}

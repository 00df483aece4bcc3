"""The steps of an image: newest first, with sizes, ids and tags where they are known."""

import pytest

from engine.daemon.images.verbs import history
from engine.errors import SystemFailure
from tests.harness.parts import image


def steps(identity, *entries, sizes=(5, 7), layers="ab", parent=""):
    config = {"history": list(entries), "rootfs": {"diff_ids": list(layers)}}
    return image(id=identity, config=config, layer_sizes=sizes, parent=parent, repo_tags=("a:1",))


class Store:
    """Finds the image `parent` alone."""

    def find(self, name):
        assert name == "parent"
        return steps("parent")


def test_the_steps_are_shown_newest_first_with_the_sizes_of_their_layers():
    made = steps(
        "image",
        {"created": "1970-01-01T00:00:02Z", "created_by": "one", "comment": "c"},
        {"created": "soon", "created_by": 5, "empty_layer": True},
        "no step",
        {"created_by": "three"},
        parent="parent",
    )
    three, two, one = history.history(Store(), made)
    assert [step["Size"] for step in (one, two, three)] == [5, 0, 7]
    assert one == {"Comment": "c", "Created": 2, "CreatedBy": "one", "Id": "<missing>", "Size": 5, "Tags": None}
    assert (two["Id"], two["Tags"], two["CreatedBy"], two["Created"]) == ("parent", ["a:1"], "", 0)
    assert (three["Id"], three["Tags"]) == ("image", ["a:1"])


def test_a_history_of_more_layers_than_there_are_is_told():
    with pytest.raises(SystemFailure, match="unable to find the size of the layer"):
        history.history(None, steps("image", {}, {}, {}))
    assert history.history(None, image(config={"history": "x"})) == []


def test_a_layer_that_stands_in_an_image_twice_has_its_size_at_both_places():
    """On the disk it is there once, at its upper place."""
    made = steps("image", {}, {}, {"empty_layer": True}, {}, {}, layers="abca", sizes=(2, 3, 1))
    assert [step["Size"] for step in history.history(None, made)[::-1]] == [1, 2, 0, 3, 1]

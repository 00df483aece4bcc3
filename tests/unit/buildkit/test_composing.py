"""The config of an image that is exported, under SOURCE_DATE_EPOCH."""

import pytest

from engine.daemon.buildkit.exporters import composing
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.images import platform
from engine.daemon.jsontext import Object

EPOCH, AT_EPOCH, LATER = 1_500_000_000, "2017-07-14T02:40:00Z", "2020-01-02T03:04:05Z"
BASE: Object = {"created": LATER, "history": [{"created": LATER, "created_by": "base", "empty_layer": True}]}
STEP: Object = {"created": LATER, "created_by": "step", "empty_layer": True}


def composed(config: Object, base: Object) -> Object:
    """What becomes of the config of a tree without layers."""
    tree = Tree(platform.host(), (), config)
    return composing._config(tree, [], base, EPOCH, None)


@pytest.mark.parametrize(
    ("config", "base", "created", "steps"),
    [
        (BASE, BASE, LATER, [LATER]),
        ({**BASE, "history": [*BASE["history"], STEP]}, BASE, AT_EPOCH, [LATER, AT_EPOCH]),
        ({"created": LATER, "history": [STEP]}, {}, AT_EPOCH, [AT_EPOCH]),
        ({**BASE, "created": "2021-01-01T00:00:00Z"}, BASE, AT_EPOCH, [LATER]),
        ({"created": "2001-01-01T00:00:00Z", "history": [STEP]}, {}, "2001-01-01T00:00:00Z", [AT_EPOCH]),
        ({"history": [STEP]}, {}, AT_EPOCH, [AT_EPOCH]),
    ],
)
def test_nothing_is_younger_than_the_epoch_but_what_the_base_is(
    config: Object, base: Object, created: str, steps: list[str]
) -> None:
    found = composed(config, base)
    assert (found["created"], [step["created"] for step in found["history"]]) == (created, steps)


def test_a_tree_without_layers_has_gos_empty_list() -> None:
    assert composed({}, {})["rootfs"] == {"type": "layers", "diff_ids": None}

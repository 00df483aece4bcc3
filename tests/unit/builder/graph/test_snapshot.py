"""The trees that operations make: their names, and the directories that they are mounted from."""

import hashlib

from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.images.layers.store import Layer


def part(number: int) -> Part:
    """A layer of that number."""
    return Part(Layer(number, f"sha256:{number:064x}", 10), {"digest": f"sha256:{number:064x}"})


def test_an_empty_tree_has_no_chain() -> None:
    """Nothing names nothing, and no layer leaves a tree as it is."""
    assert Snapshot().chain == ""
    tree = Snapshot()
    assert tree.above(None) is tree


def test_the_chain_is_that_of_the_oci_specification() -> None:
    """ChainID(L0) is its diff id, ChainID(L0|...|Ln) the digest of the chain below, a space and the diff id."""
    tree = Snapshot().above(part(1))
    assert tree.chain == part(1).layer.diff_id
    two = tree.above(part(2))
    text = f"{part(1).layer.diff_id} {part(2).layer.diff_id}"
    assert two.chain == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert two.diff_ids == [part(1).layer.diff_id, part(2).layer.diff_id]


def test_a_layer_that_comes_twice_is_mounted_once_in_its_upper_place() -> None:
    """overlayfs refuses a directory that is given twice."""
    assert Snapshot((part(1), part(2), part(1))).layers == ("2", "1")

"""What the nodes of a graph have made, in an order in which each stands after its inputs: for caches that travel.

Pure. A node that is kept under no identity (an image, nothing at all) is known by what it has made.
"""

from collections.abc import Callable, Mapping, Sequence

from engine.daemon.builder.graph.node import Input, Node, digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One node that was solved. identity: of its result; inputs: places of the steps that it stands on

    tree: what it has made; cached: the identity names what the cache keeps
    """

    identity: str
    inputs: tuple[int, ...]
    tree: Snapshot
    cached: bool


def result(identity: str, place: int) -> str:
    """The name of one output of what is kept under an identity."""
    return digest("output", identity, place) if place else identity


def steps(wanted: Sequence[Input], solved: Callable[[Node], tuple[str, Mapping[int, Snapshot]]]) -> list[Step]:
    """The steps that lead to these outputs. solved: identity (empty for none) and outputs of a node"""
    found: list[Step] = []
    places: dict[tuple[str, int], int] = {}
    waiting: list[tuple[Input, bool]] = [(each, False) for each in reversed(wanted)]
    while waiting:
        wish, entered = waiting.pop()
        key = wish.node.key, wish.index
        if key in places:
            continue
        if not entered:
            waiting.append((wish, True))
            waiting += [(each, False) for each in reversed(wish.node.inputs)]
            continue
        identity, outputs = solved(wish.node)
        tree = outputs[wish.index]
        name = result(identity, wish.index) if identity else digest("step", tree.chain, wish.index)
        inputs = tuple(places[each.node.key, each.index] for each in wish.node.inputs)
        places[key] = len(found)
        found.append(Step(name, inputs, tree, bool(identity)))
    return found

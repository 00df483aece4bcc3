"""The nodes of the graph of builds: an operation, and the outputs of other nodes that it is applied to.

Pure. Two nodes with the same key do the same to the same, so a graph that is built twice merges. A key says what a node
is by definition. What an operation makes is kept under its `identity` instead, which is known once the inputs are
solved: two nodes with different keys may find the same result.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.dataclass import dataclass
from engine.redact import redacted

# Part of every digest below. It is changed whenever an operation makes something else of the same input than before.
_FORMAT = 2

Value = str | int | bool | None | Sequence["Value"]
"""What a digest is made of."""


class Operation(Protocol):
    """Makes trees of files out of trees of files. It is immutable, and several threads may use it at once."""

    @property
    def kind(self) -> str:
        """The kind of its record in the cache: `regular`, `source.local`, ..., as BuildKit calls it."""

    @property
    def title(self) -> str:
        """What it does, for people; empty for what they are not told of."""

    def key(self) -> str:
        """What it is by definition, without its inputs, as `digest` makes it."""

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str | None:
        """All that decides what it makes of these inputs, as `digest` makes it; None where nothing is to be kept.

        It may read the inputs' files, so that a change that does not matter keeps the result. Secrets are no part of
        it. Raises EngineErrors.
        """

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Its outputs. Raises EngineErrors, and what `work.check` and `work.watch` raise."""


@dataclass(frozen=True, slots=True)
class Input:
    """One output of a node, as another one takes it. index: its place among the outputs"""

    node: Node
    index: int = 0


class Node:
    """An operation on inputs; equal to every node of the same key.

    name: for people, as progress shows it; fresh: its result is made anew, and not taken from the cache
    """

    __slots__ = ("fresh", "inputs", "key", "name", "operation")

    def __init__(self, operation: Operation, inputs: Sequence[Input] = (), name: str = "", fresh: bool = False) -> None:
        self.operation = operation
        self.inputs = tuple(inputs)
        self.name = redacted(name or operation.title)
        self.fresh = fresh
        below: list[Value] = [[each.node.key, each.index] for each in self.inputs]
        self.key: str = digest("node", operation.key(), fresh, below)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def output(self, index: int = 0) -> Input:
        """One of its outputs, for another node."""
        return Input(self, index)


def reachable(wanted: Iterable[Node], known: Container[str] = ()) -> list[Node]:
    """These nodes and all that they need, each once, and each after its inputs. known: keys of those to leave out"""
    order: list[Node] = []
    seen: set[str] = set()
    waiting = [(node, False) for node in wanted][::-1]
    while waiting:
        node, entered = waiting.pop()
        if entered:
            order.append(node)
        elif node.key not in seen and node.key not in known:
            seen.add(node.key)
            waiting.append((node, True))
            waiting += [(each.node, False) for each in reversed(node.inputs)]
    return order


def digest(*values: Value) -> str:
    """A digest of these values, sha256 in hex. Two lists of values have the same one only if they are the same."""
    text = json.dumps([_FORMAT, *values], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def chains(inputs: Sequence[Snapshot]) -> list[str]:
    """The names of the trees' contents, which most operations have in their `identity`."""
    return [each.chain for each in inputs]

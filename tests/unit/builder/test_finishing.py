"""The document of a finished image: its history with BuildKit's moments, and what it takes over from its base."""

import pytest

from engine.daemon.builder import finishing
from engine.daemon.builder.arguments import Arguments
from engine.daemon.builder.converting import Built, Entry
from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.solver import Solved
from engine.daemon.builder.pulled import Given
from engine.daemon.builder.state import State, shown_config
from engine.daemon.images import platform
from engine.daemon.images.layers.store import Layer
from engine.daemon.jsontext import Object

SECOND = 10**9
BASE = {"created": "2020-01-01T00:00:00Z", "author": "them", "architecture": "arm", "variant": "v7", "os": "linux"}


class Solver:
    """Knows what nodes have made."""

    def __init__(self) -> None:
        self.known: dict[str, Solved] = {}

    def solved(self, node: Node) -> Solved:
        """What this one has."""
        return self.known[node.key]

    def snapshot(self, wanted: object) -> Snapshot:
        """The tree of an output."""
        return self.known[wanted.node.key].outputs[wanted.index]


def part(number: int) -> Part:
    """A layer of that number."""
    return Part(Layer(number, f"sha256:{number}", 1), {})


def document(
    *steps: tuple[str, int | None, bool], base: Object | None = None, asked: platform.Platform | None = None
) -> Object:
    """The document after these steps: its text, the second in which its files were made (None: it makes none), and
    whether there are any.
    """
    solver, tree, entries = Solver(), Snapshot((part(0),)), []
    below = Node(Given(tree))
    solver.known[below.key] = Solved((tree,))
    for number, (text, second, changes) in enumerate(steps, start=1):
        if second is None:
            entries.append(Entry(text, None))
            continue
        tree = tree.above(part(number) if changes else None)
        node = Node(Given(Snapshot((part(100 + number),))), [below.output()])
        solver.known[node.key] = Solved((tree,), "x", second * SECOND)
        entries.append(Entry(text, node))
        below = node
    state = State(Arguments({}, {}), platform.parse("linux/arm/v7"))
    state.config = {"Env": ["A=b"], "Cmd": []}
    made, parts = finishing.document(
        Built(state, below.output(), BASE if base is None else base, entries), solver, asked
    )
    assert [each.layer.diff_id for each in parts] == made["rootfs"]["diff_ids"]
    return made


def history(made: Object) -> list[tuple[str, str, bool]]:
    """Text, second and emptiness of each step."""
    return [(step["created_by"], step["created"][17:19], step.get("empty_layer", False)) for step in made["history"]]


def test_a_step_without_files_has_the_moment_of_the_one_before_or_of_the_first_with_files() -> None:
    made = document(
        ("ENV", None, False), ("RUN", 5, True), ("CMD", None, False), ("COPY", 7, True), ("USER", None, False)
    )
    assert history(made) == [
        ("ENV", "05", True),
        ("RUN", "05", False),
        ("CMD", "05", True),
        ("COPY", "07", False),
        ("USER", "07", True),
    ]
    assert made["created"][17:19] == "07"


def test_a_step_that_changes_nothing_has_no_layer() -> None:
    made = document(("RUN", 5, True), ("RUN true", 6, False))
    assert history(made) == [("RUN", "05", False), ("RUN true", "05", True)]
    assert len(made["rootfs"]["diff_ids"]) == 2


def test_a_moment_that_nobody_knows_is_that_of_the_step_before() -> None:
    assert history(document(("RUN", 5, True), ("lent", 0, True))) == [("RUN", "05", False), ("lent", "05", False)]


def test_an_image_without_files_of_its_own_is_as_old_as_its_base() -> None:
    made = document(("ENV", None, False))
    assert made["created"] == BASE["created"] == made["history"][0]["created"]


def test_what_the_base_says_is_taken_over() -> None:
    made = document(("RUN", 5, True), base={**BASE, "history": [{"created_by": "them"}]})
    assert (made["author"], made["architecture"], made["variant"], made["os"]) == ("them", "arm", "v7", "linux")
    assert made["config"] == {"Env": ["A=b"]}
    assert [step["created_by"] for step in made["history"]] == ["them", "RUN"]
    assert {step["comment"] for step in made["history"][1:]} == {"buildkit.dockerfile.v0"}
    assert "author" not in document(("RUN", 5, True), base={})


@pytest.mark.parametrize(
    ("base", "asked", "expected"),
    [
        ({}, None, platform.host()),
        ({}, "linux/arm64/v8", platform.Platform("linux", "arm64")),
        ({"architecture": "arm64", "variant": "v8", "os": "linux"}, None, platform.Platform("linux", "arm64")),
        (BASE, None, platform.Platform("linux", "arm", "v7")),
        (BASE, "linux/amd64", platform.Platform("linux", "amd64")),
    ],
)
def test_a_platform_is_what_the_client_names_or_the_bases(
    base: Object, asked: str | None, expected: platform.Platform
) -> None:
    """In the form without what means nothing, whatever the stage itself was for."""
    made = document(("RUN", 5, True), base=base, asked=platform.parse(asked) if asked else None)
    assert (made["os"], made["architecture"], made.get("variant", "")) == (
        expected.os,
        expected.architecture,
        expected.variant,
    )


def test_tables_are_in_the_order_of_their_keys() -> None:
    shown = shown_config({"Labels": {"b": "1", "a": "2"}, "Env": ["B=1", "A=2"], "Cmd": []})
    assert (list(shown), list(shown["Labels"]), shown["Env"]) == (["Env", "Labels"], ["a", "b"], ["B=1", "A=2"])

"""A graph of operations as provenance shows it."""

from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.provenance import graphsteps
from engine.protocols import protobuf
from tests.harness.graphs import MKFILE, Writer


def whole(written: ops.Definition) -> ops.Definition:
    """The definition as it comes over the wire, with all of its fields."""
    return protobuf.decode(ops.Definition, protobuf.encode(ops.Definition, written))


def test_each_step_stands_after_its_inputs_and_names_them_by_their_numbers() -> None:
    writer = Writer()
    base = writer.add({"source": {"identifier": "local://c", "attrs": {"local.session": "s", "local.unique": "u"}}})
    one = writer.files({"mkfile": {**MKFILE, "path": "/a", "data": b"a"}}, inputs=(base,))
    two = writer.files({"mkfile": {**MKFILE, "path": "/b", "data": b"b"}}, inputs=(base,))
    merged = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, one, two)
    shown, names = graphsteps.shown(whole(writer.definition(merged)))
    steps = shown["llbDefinition"]
    assert [each["id"] for each in steps] == [f"step{number}" for number in range(5)]
    assert [each.get("inputs") for each in steps] == [
        None,
        ["step0:0"],
        ["step0:0"],
        ["step1:0", "step2:0"],
        ["step3:0"],
    ]
    assert steps[0]["op"]["Op"] == {"source": {"identifier": "local://c"}}  # what is of the session alone is left out
    (action,) = steps[1]["op"]["Op"]["file"]["actions"]
    assert (action["input"], action["secondaryInput"], action["output"]) == (0, -1, 0)
    assert action["Action"]["mkfile"]["data"] == "YQ=="
    assert steps[3]["op"]["Op"] == {"merge": {"inputs": [{}, {"input": 1}]}}
    assert steps[4]["op"]["Op"] == {}
    assert shown["digestMapping"] == names and set(names.values()) == {each["id"] for each in steps}


def test_no_graph() -> None:
    assert graphsteps.shown(None) == ({}, {})
    assert graphsteps.shown(whole({"ops": []})) == ({}, {})

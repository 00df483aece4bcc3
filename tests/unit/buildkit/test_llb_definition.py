"""Definitions of graphs of operations: what is read from them, and what is refused."""

import hashlib
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.buildkit.llb import definition
from engine.daemon.buildkit.messages import ops
from engine.errors import EngineError, Invalid, NotBuilt
from engine.protocols import protobuf
from tests.harness.amounts import amount
from tests.harness.graphs import MKDIR, MKFILE, Made, Writer


def test_each_operation_stands_behind_what_it_needs() -> None:
    writer = Writer()
    base = writer.image("docker.io/library/a:1", description={"llb.customname": "the base"})
    one, two = writer.run(base, "true"), writer.run(base, "false")
    merged = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, one, two)
    graph = definition.read(writer.decoded(merged))
    assert [vertex.digest for vertex in graph.vertices] == [base.digest, one.digest, two.digest, merged.digest]
    assert [vertex.inputs for vertex in graph.vertices] == [(), ((0, 0),), ((0, 0),), ((1, 0), (2, 0))]
    assert graph.result == (3, 0)
    assert graph.vertices[0].metadata["description"] == {"llb.customname": "the base"}
    assert graph.vertices[1].op["exec"]["meta"]["args"] == ["true"]  # type: ignore[index]


def test_the_order_in_which_they_are_written_says_nothing() -> None:
    writer = Writer()
    made = writer.run(writer.image("a"), "true")
    for place in range(40):
        made = writer.run(made, str(place))
    there = writer.decoded(made)
    turned = {**there, "ops": [*reversed(there["ops"][:-1]), there["ops"][-1]]}
    assert [each.digest for each in definition.read(there).vertices] == [
        each.digest
        for each in definition.read(turned).vertices  # type: ignore[arg-type]
    ]


def test_what_nobody_needs_is_left_out() -> None:
    writer = Writer()
    writer.image("other")
    made = writer.image("a")
    assert [each.digest for each in definition.read(writer.decoded(made)).vertices] == [made.digest]


def test_a_definition_of_nothing_is_scratch() -> None:
    graph = definition.read(protobuf.decode(ops.Definition, b""))
    assert (graph.vertices, graph.result) == ((), None)


def test_the_sources_are_kept() -> None:
    writer = Writer()
    made = writer.image("a")
    writer.source = {
        "infos": [{"filename": "F", "data": b"x\n"}],
        "locations": {made.digest: {"locations": [{"sourceIndex": 0, "ranges": [{"start": {"line": 1}}]}]}},
    }
    found = definition.read(writer.decoded(made)).sources
    assert found and found["infos"][0]["filename"] == "F"
    writer.source["locations"][made.digest]["locations"][0]["sourceIndex"] = 1
    with pytest.raises(Invalid, match="invalid source index 1"):
        definition.read(writer.decoded(made))


def of(*actions: dict[str, Any]) -> dict[str, Any]:
    return {"file": {"actions": list(actions)}}


def run(**changed: Any) -> dict[str, Any]:
    root = {"input": 0, "dest": "/", "output": 0}
    return {"exec": {"meta": {"args": ["x"]}, "mounts": [root], **changed}}


ACTION: dict[str, Any] = {"input": 0, "secondaryInput": -1, "output": 0, "mkdir": {**MKDIR, "path": "/a"}}
ROOT: ops.Mount = {"input": 0, "dest": "/", "output": 0}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "exactly one operation"),
    ({"merge": {}, "diff": {}}, "exactly one operation"),
    ({"source": {"identifier": "docker-image://a"}}, "invalid source op with 1 inputs"),
    (run(meta=None), "no meta"),
    (run(meta={}), "no args"),
    (run(mounts=[]), "no mounts"),
    (run(mounts=[{**ROOT, "dest": "/a"}]), "no rootfs"),
    (run(mounts=[ROOT, {**ROOT, "output": 1}]), "two roots"),
    (run(mounts=[{**ROOT, "mountType": ops.TMPFS}]), "invalid mount type 4 for /"),
    (run(mounts=[ROOT, {"dest": "/a", "output": -1, "mountType": 9}]), "mount type 9 not implemented"),
    (run(mounts=[{**ROOT, "input": 1}]), "invalid mount input index 1"),
    (run(mounts=[{**ROOT, "input": -2}]), "invalid mount input index -2"),
    (run(mounts=[{**ROOT, "output": 1}]), "not numbered"),
    (run(mounts=[{**ROOT, "output": -7}]), "not numbered"),
    (run(mounts=[ROOT, {"dest": "", "output": -1}]), "no destination"),
    (run(mounts=[ROOT, {"dest": "/a\0", "output": -1}]), "NUL"),
    (run(mounts=[ROOT, {"dest": "/a", "output": 1, "selector": "b", "contentCache": ops.ON}]), "mount cache content"),
    (run(network=7), "unknown network"),
    (run(security=7), "unknown network or security"),
    (of(), "no actions"),
    (of({**ACTION, "output": -1}), "no outputs"),
    (of(ACTION, ACTION), "duplicate output"),
    (of({**ACTION, "output": 1}), "not numbered"),
    (of({**ACTION, "input": 1}), "invalid input index 1, 1 provided"),
    (of({**ACTION, "input": -2}), "invalid input index -2"),
    (of({**ACTION, "output": -1, "input": 2}, {**ACTION, "input": 1}), "invalid input index 2"),
    (of({**ACTION, "secondaryInput": 9}), "invalid input index 9"),
    (of({**ACTION, "mkdir": None}), "exactly one thing"),
    (of({**ACTION, "mkfile": MKFILE}), "exactly one thing"),
    (of({**ACTION, "mkdir": {"path": "a", "owner": {"user": {"byName": {"name": "u", "input": 4}}}}}), "user index: 4"),
    (of({**ACTION, "mkdir": {"path": "a", "owner": {"user": {"byID": 0xFFFFFFFF}}}}), "invalid user 4294967295"),
    ({"build": {"inputs": {"a": {"input": 3}}}}, "invalid build input index 3"),
    ({"merge": {}}, "0 inner inputs and 1 outer"),
    ({"merge": {"inputs": [{"input": 1}]}}, "invalid merge input index 1"),
    ({"diff": {"lower": {}}}, "nil lower or upper"),
    ({"diff": {"lower": {}, "upper": {}}}, "2 inner inputs and 1 outer"),
    ({"diff": {"lower": {"input": -1}, "upper": {"input": 5}}}, "invalid diff input index 5"),
    ({"passthrough": {"outputs": [0]}}, "no id"),
    ({"passthrough": {"id": "x"}}, "no outputs"),
    ({"passthrough": {"id": "x", "outputs": [1]}}, "input index 1"),
]


@pytest.mark.parametrize(("op", "words"), WRONG, ids=[words for _, words in WRONG])
def test_an_operation_that_is_not_whole_is_refused(op: dict[str, Any], words: str) -> None:
    writer = Writer()
    base = writer.image("a")
    with pytest.raises(Invalid, match=words):
        definition.read(writer.decoded(writer.add(op, base)))


def test_a_digest_names_nothing_but_the_bytes_of_an_operation() -> None:
    writer = Writer()
    writer.image("a")
    forged = Made("sha256:" + hashlib.sha256(b"another").hexdigest())
    for missing in (forged, Made(""), Made("../../etc/passwd")):
        with pytest.raises(Invalid, match="invalid missing input digest"):
            definition.read(writer.decoded(writer.run(missing, "true")))


def test_an_output_that_there_is_not_is_refused() -> None:
    writer = Writer()
    base = writer.image("a")
    for index in (1, 1 << 40):
        with pytest.raises(Invalid, match=f"invalid output {index}"):
            definition.read(writer.decoded(writer.run(Made(base.digest, index), "true")))
        with pytest.raises(Invalid, match=f"invalid output {index}"):
            definition.read(writer.decoded(Made(base.digest, index)))
    with pytest.raises(Invalid, match="invalid input 0 output index -1"):
        definition.read(writer.decoded(writer.run(Made(base.digest, -1), "true")))


def test_a_capability_that_there_is_not_is_refused_in_words() -> None:
    writer = Writer()
    made = writer.image("a", caps={"source.moon": True})
    with pytest.raises(NotBuilt, match=r"source\.moon"):
        definition.read(writer.decoded(made))


def test_a_choice_of_workers_is_refused() -> None:
    writer = Writer()
    op = {"source": {"identifier": "docker-image://a"}, "constraints": {"filter": ["label==x"]}}
    with pytest.raises(NotBuilt, match="worker"):
        definition.read(writer.decoded(writer.add(op)))


def test_a_definition_is_bounded() -> None:
    writer = Writer()
    made = writer.image("a")
    for place in range(definition.DEEPEST - 1):
        made = writer.run(made, str(place))
    assert len(definition.read(writer.decoded(made)).vertices) == definition.DEEPEST
    with pytest.raises(Invalid, match="a chain of more than"):
        definition.read(writer.decoded(writer.run(made, "one more")))
    many: ops.Definition = {"ops": [b"\x0a\x00"] * 100_000, "metadata": {}, "Source": None}
    with pytest.raises(Invalid, match="with 100000 vertexes"):
        definition.read(many)
    large = {"mkfile": {**MKFILE, "path": "/a", "data": bytes(definition.MOST_BYTES)}}
    writer = Writer()
    with pytest.raises(Invalid, match="invalid LLB of more than"):
        definition.read(writer.decoded(writer.files(large)))


def test_many_ways_to_one_operation_are_one_walk() -> None:
    """Each layer doubles the ways through the graph: walking them all would take for ever."""
    writer = Writer()
    made = writer.image("a")
    for _ in range(500):
        made = writer.add({"merge": {"inputs": [{"input": 0}, {"input": 1}]}}, made, made)
    begun = time.monotonic()
    assert len(definition.read(writer.decoded(made)).vertices) == 501
    assert time.monotonic() - begun < 10


@settings(max_examples=amount(200, 50), deadline=None)
@given(st.lists(st.lists(st.integers(0, 1 << 16), max_size=4), min_size=1, max_size=30))
def test_any_graph_is_read_as_it_was_written(shape: list[list[int]]) -> None:
    writer, made = Writer(), [Writer().image("a")]
    writer.image("a")
    for place, below in enumerate(shape):
        inputs = [made[each % len(made)] for each in below] or [made[0]]
        merge = {"inputs": [{"input": each} for each in range(len(inputs))]}
        made.append(writer.add({"merge": merge, "platform": {"OS": str(place)}}, *inputs))
    graph = definition.read(writer.decoded(made[-1]))
    for place, vertex in enumerate(graph.vertices):
        assert all(below < place for below, _ in vertex.inputs)
        assert [graph.vertices[below].digest for below, _ in vertex.inputs] == [
            each["digest"] for each in vertex.op["inputs"]
        ]


@settings(max_examples=amount(1000, 200), deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_end_in_words(data: bytes) -> None:
    for found in ({"ops": [data, data], "metadata": {}, "Source": None}, None):
        try:
            definition.read(found or protobuf.decode(ops.Definition, data))  # type: ignore[arg-type]
        except EngineError:
            pass

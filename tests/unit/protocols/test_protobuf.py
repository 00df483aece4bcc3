"""protobuf against the package `protobuf`: what one of the two writes the other reads, and both refuse the same."""

from typing import Annotated, Any, TypedDict

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols import protobuf
from engine.protocols.protobuf import UNSIGNED


class Inner(TypedDict, total=False):
    """A message in a message."""

    name: Annotated[str, 1]
    deeper: Annotated["Inner | None", 2]


class Outer(TypedDict, total=False):
    """One field of each kind."""

    text: Annotated[str, 1]
    data: Annotated[bytes, 2]
    flag: Annotated[bool, 3]
    signed: Annotated[int, 4]
    unsigned: Annotated[int, 5, UNSIGNED]
    inner: Annotated[Inner | None, 13]
    texts: Annotated[list[str], 14]
    numbers: Annotated[list[int], 15]
    inners: Annotated[list[Inner], 16]
    named: Annotated[dict[str, str], 17]
    counted: Annotated[dict[int, Inner], 18]
    far: Annotated[bool, 2000]


class Outers(TypedDict, total=False):
    """Many of them."""

    outers: Annotated[list[Outer], 1]


KINDS = {
    "text": "STRING",
    "data": "BYTES",
    "flag": "BOOL",
    "signed": "INT64",
    "unsigned": "UINT64",
    "inner": "MESSAGE",
    "texts": "STRING",
    "numbers": "INT64",
    "inners": "MESSAGE",
    "named": "STRING STRING",
    "counted": "INT64 MESSAGE",
    "far": "BOOL",
}
MANY = ("texts", "numbers", "inners")


def oracle() -> Any:
    """The class of the other package for `Outer`."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="name", number=1, type=9, label=1)
    inner.field.add(name="deeper", number=2, type=11, type_name=".t.Inner", label=1)
    outer = file.message_type.add(name="Outer")
    for name, field in protobuf._table(Outer).fields.items():
        _add(outer, field.name, name, KINDS[field.name])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Outer"))


def _type(name: str) -> dict[str, Any]:
    number = getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name}")
    return {"type": number, **({"type_name": ".t.Inner"} if name == "MESSAGE" else {})}


def _add(outer: Any, name: str, number: int, kind: str) -> None:
    if " " not in kind:
        outer.field.add(name=name, number=number, label=3 if name in MANY else 1, **_type(kind))
        return
    entry = outer.nested_type.add(name=f"{name.title()}Entry")
    entry.options.map_entry = True
    for place, (part, each) in enumerate(zip(("key", "value"), kind.split(), strict=True), 1):
        entry.field.add(name=part, number=place, label=1, **_type(each))
    outer.field.add(name=name, number=number, label=3, type=11, type_name=f".t.Outer.{entry.name}")


THEIRS = oracle()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
INNER: Any = st.recursive(
    st.fixed_dictionaries({"name": TEXT, "deeper": st.none()}),
    lambda below: st.fixed_dictionaries({"name": TEXT, "deeper": st.none() | below}),
    max_leaves=3,
)
OUTER = st.fixed_dictionaries(
    {
        "text": TEXT,
        "data": st.binary(max_size=8),
        "flag": st.booleans(),
        "signed": INT64,
        "unsigned": st.integers(0, (1 << 64) - 1),
        "inner": st.none() | INNER,
        "texts": st.lists(TEXT, max_size=3),
        "numbers": st.lists(INT64, max_size=4),
        "inners": st.lists(INNER, max_size=3),
        "named": st.dictionaries(TEXT, TEXT, max_size=3),
        "counted": st.dictionaries(INT64, INNER, max_size=3),
        "far": st.booleans(),
    }
)


def fill(made: Any, value: dict[str, Any]) -> None:
    """Give the other package's message the same fields."""
    for name, each in value.items():
        if name in ("inner", "deeper"):
            if each is not None:
                getattr(made, name).SetInParent()
                fill(getattr(made, name), each)
        elif name == "inners":
            for one in each:
                fill(made.inners.add(), one)
        elif name == "counted":
            for key, one in each.items():
                fill(made.counted[key], one)
        elif name == "named":
            made.named.update(each)
        elif name in MANY:
            getattr(made, name).extend(each)
        else:
            setattr(made, name, each)


@given(OUTER)
def test_both_read_what_the_other_writes(value: dict[str, Any]) -> None:
    made = THEIRS()
    fill(made, value)
    assert protobuf.decode(Outer, made.SerializeToString()) == value
    read = THEIRS()
    read.ParseFromString(protobuf.encode(Outer, value))
    assert read == made


@given(st.binary(max_size=60))
@example(b"\x08\x01")  # a number where a text is to be
@example(b"\x0b\x0c")  # a group
@example(b"\xc2\x3e\x01")
@example(b"\x80\x80\x80\x80\x10\x00")  # a number beyond the last
def test_any_bytes_are_read_alike_or_refused(data: bytes) -> None:
    read = THEIRS()
    try:
        read.ParseFromString(data)
    except DecodeError:
        read = None
    try:
        ours = protobuf.decode(Outer, data)
    except Invalid:  # this one is stricter: a field of another type, a group, bytes behind a varint's tenth
        return
    assert read is not None
    again = THEIRS()
    again.ParseFromString(protobuf.encode(Outer, ours))
    for field in read.DESCRIPTOR.fields:
        assert getattr(again, field.name) == getattr(read, field.name)


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05ab", b"\x0a\xff", b"\x20" + b"\xff" * 11, b"\x0a\x01\xff", b"\x00\x00", b"\x0b", b"\x09\x00"],
)
def test_what_is_cut_or_broken_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match=r"^protobuf: "):
        protobuf.decode(Outer, data)


def test_values_are_counted() -> None:
    """A message of 16 MB could become gigabytes of empty ones."""
    assert len(protobuf.decode(Outer, b"\x82\x01\x00" * 400_000)["inners"]) == 400_000
    with pytest.raises(Invalid, match="too many values"):
        protobuf.decode(Outer, b"\x82\x01\x00" * 600_000)
    with pytest.raises(Invalid, match="too many values"):
        protobuf.decode(Outer, b"\x7a\xc0\xcf\x24" + bytes(600_000))


def test_a_message_of_many_keys_counts_as_several_values() -> None:
    """Two bytes are one: it has all its keys at once."""
    assert len(protobuf.decode(Outers, b"\x0a\x00" * 50_000)["outers"]) == 50_000
    with pytest.raises(Invalid, match="too many values"):
        protobuf.decode(Outers, b"\x0a\x00" * 200_000)


def test_messages_lie_in_each_other_only_so_deep() -> None:
    data = b""
    for _ in range(200):
        data = b"\x12" + protobuf._varint(len(data)) + data
    with pytest.raises(Invalid, match="too deep"):
        protobuf.decode(Inner, data)

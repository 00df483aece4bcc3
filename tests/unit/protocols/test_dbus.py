"""D-Bus messages against jeepney's, an implementation of the same format by others, and against bytes of no meaning."""

import math
import struct
from io import BytesIO

import jeepney
import jeepney.low_level as theirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import Invalid
from engine.protocols import dbus
from engine.protocols.dbus import CALL, ERROR, RETURN, SIGNAL, Message, Variant

MANAGER = "org.freedesktop.systemd1.Manager"
PLAIN = Message(CALL, 1, path="/org/freedesktop/systemd1", interface=MANAGER, member="Subscribe")
INTEGERS = {"y": 8, "q": 16, "u": 32, "t": 64}
SIGNED = {"n": 16, "i": 32, "x": 64}
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
PATHS = st.lists(st.from_regex("[A-Za-z0-9_]{1,5}", fullmatch=True), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
BASIC = {
    **{code: st.integers(0, 2**bits - 1) for code, bits in INTEGERS.items()},
    **{code: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for code, bits in SIGNED.items()},
    "b": st.booleans(),
    "d": st.floats(allow_nan=False),
    "s": TEXTS,
    "o": PATHS,
    "g": st.sampled_from(["", "s", "a{sv}", "(iai)", "aav"]),
}


def types(most: int = 3) -> st.SearchStrategy[str]:
    """Complete types."""
    basic = st.sampled_from(sorted(BASIC))
    return st.recursive(
        basic | st.just("v"),
        lambda inner: st.one_of(
            inner.map("a{}".format),
            st.tuples(basic, inner).map(lambda pair: "a{" + "".join(pair) + "}"),
            st.lists(inner, min_size=1, max_size=3).map(lambda kinds: "(" + "".join(kinds) + ")"),
        ),
        max_leaves=most,
    )


def values(kind: str) -> st.SearchStrategy[object]:
    """Values of one complete type."""
    if kind in BASIC:
        return BASIC[kind]
    if kind == "v":
        return types(1).flatmap(lambda inner: values(inner).map(lambda value: Variant(inner, value)))
    if kind == "ay":
        return st.binary(max_size=20)
    if kind.startswith("a{"):
        inner = dbus.complete_types(kind[2:-1])
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if kind[0] == "a":
        return st.lists(values(kind[1:]), max_size=3)
    return st.tuples(*(values(each) for each in dbus.complete_types(kind[1:-1])))


def bodies() -> st.SearchStrategy[tuple[str, tuple[object, ...]]]:
    """Signatures, each with values of it."""

    def filled(kinds: list[str]) -> st.SearchStrategy[tuple[str, tuple[object, ...]]]:
        return st.tuples(*(values(kind) for kind in kinds)).map(lambda body: ("".join(kinds), body))

    return st.lists(types(), max_size=4).flatmap(filled)


def plain(value: object) -> object:
    """The value with each Variant as jeepney has it: a pair."""
    if isinstance(value, Variant):
        return value.signature, plain(value.value)
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


@given(bodies())
def test_what_is_written_reads_back_here_and_elsewhere(given_body: tuple[str, tuple[object, ...]]) -> None:
    signature, body = given_body
    data = dbus.encode(Message(SIGNAL, 7, path="/a/b", interface="a.b", member="C", signature=signature, body=body))
    assert dbus.size(data[: dbus.START]) == len(data)
    read = dbus.decode(data)
    assert (read.kind, read.serial, read.member, read.signature, read.body) == (SIGNAL, 7, "C", signature, body)
    other = theirs.Parser()
    other.add_data(data)
    assert other.get_next_message().body == plain(body)


@given(bodies(), st.sampled_from([theirs.Endianness.little, theirs.Endianness.big]))
def test_what_others_write_is_read(given_body: tuple[str, tuple[object, ...]], order: theirs.Endianness) -> None:
    signature, body = given_body
    made = jeepney.new_signal(jeepney.DBusAddress("/a/b", interface="a.b"), "C", signature or None, plain(body))
    made.header.endianness = order
    read = dbus.decode(made.serialise(serial=9))
    assert (read.serial, read.path, read.signature, read.body) == (9, "/a/b", signature, body)


def test_a_call_as_systemd_gets_it() -> None:
    """Byte for byte what jeepney makes of the same call."""
    properties = [("PIDs", Variant("au", [7])), ("Delegate", Variant("b", True)), ("AllowedCPUs", Variant("ay", b"\3"))]
    body = ("engine-1.scope", "fail", properties, [])
    ours = Message(
        CALL,
        3,
        path="/org/freedesktop/systemd1",
        interface=MANAGER,
        member="StartTransientUnit",
        destination="org.freedesktop.systemd1",
        signature="ssa(sv)a(sa(sv))",
        body=body,
    )
    address = jeepney.DBusAddress("/org/freedesktop/systemd1", "org.freedesktop.systemd1", MANAGER)
    call = jeepney.new_method_call(address, "StartTransientUnit", "ssa(sv)a(sa(sv))", plain(body))
    other = theirs.Parser()
    other.add_data(dbus.encode(ours))
    read = other.get_next_message()
    assert (read.header.fields, read.body) == (call.header.fields, call.body)
    assert len(dbus.encode(ours)) == len(call.serialise(serial=3))


@pytest.mark.parametrize(
    "message",
    [
        Message(RETURN, 2, reply_to=1, sender=":1.0", destination=":1.2"),
        Message(ERROR, 2, reply_to=1, error="org.freedesktop.systemd1.UnitExists", signature="s", body=("there",)),
        Message(9, 2, flags=1),
        PLAIN,
    ],
)
def test_each_kind_of_message(message: Message) -> None:
    assert dbus.decode(dbus.encode(message)) == message


def with_body(signature: str, body: bytes) -> bytes:
    """A signal with these bytes for a body, whatever they mean."""
    empty = dbus.encode(Message(SIGNAL, 1, path="/", interface="a.b", member="C", signature="y", body=(0,)))
    field = b"\x08\x01g\0" + bytes([len(signature)]) + signature.encode() + b"\0"
    fields = empty[16 : empty.index(b"\x08\x01g\0")] + field
    head = b"l\4\0\1" + struct.pack("<III", len(body), 1, len(fields)) + fields
    return head + bytes(-len(head) % 8) + body


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("b", b"\2\0\0\0"),
        ("s", b"\3\0\0\0abc"),
        ("s", b"\3\0\0\0abcd"),
        ("s", b"\3\0\0\0a\0c\0"),
        ("s", b"\2\0\0\0\xff\xfe\0"),
        ("s", b"\xff\xff\xff\xffabc\0"),
        ("o", b"\2\0\0\0a/\0"),
        ("o", b"\2\0\0\0//\0"),
        ("g", b"\1z\0"),
        ("v", b"\2yy\0\1\1"),
        ("v", b"\0\0\0"),
        ("ay", b"\4\0\0\0abc"),
        ("ay", b"\xff\xff\xff\xffabc"),
        ("au", b"\3\0\0\0abc"),
        ("as", b"\5\0\0\0\1\0\0\0ab\0"),
        ("yu", b"\1\1\0\0\1\0\0\0"),
        ("y", b"\1\1"),
        ("y", b""),
        ("h", b"\0\0\0\0"),
        ("a", b"\0\0\0\0"),
        ("()", b""),
        ("(y", b"\0"),
        ("a{vs}", b"\0\0\0\0"),
        ("a{s}", b"\0\0\0\0"),
        ("{sv}", b""),
        ("a" * 33 + "y", b"\0\0\0\0"),
        ("(" * 33 + "y" + ")" * 33, b"\0"),
        ("v", b"\1v\0" * 70 + b"\1y\0\0"),
    ],
)
def test_a_body_that_breaks_the_format_is_refused(signature: str, body: bytes) -> None:
    with pytest.raises(Invalid, match="dbus: "):
        dbus.decode(with_body(signature, body))


def test_bodies_made_by_hand_are_read_too() -> None:
    """So the ones above are refused for what is wrong with them."""
    assert dbus.decode(with_body("s", b"\3\0\0\0abc\0")).body == ("abc",)
    assert dbus.decode(with_body("yu", b"\1\0\0\0\1\0\0\0")).body == (1, 1)
    assert dbus.decode(with_body("v", b"\1v\0" * 20 + b"\1y\0\7")).body[0].signature == "v"


def changed(at: int, byte: int, data: bytes = dbus.encode(PLAIN)) -> bytes:
    """The message with one byte changed."""
    return data[:at] + bytes([byte]) + data[at + 1 :]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"l",
        changed(0, ord("x")),
        changed(1, 0),
        changed(3, 2),
        changed(8, 0),
        changed(4, 1),
        changed(7, 0xFF),
        changed(1, SIGNAL, dbus.encode(Message(CALL, 1, path="/a", member="B"))),
        dbus.encode(PLAIN) + b"\0",
        dbus.encode(PLAIN)[:-1],
        dbus.encode(PLAIN).replace(b"Subscribe", b"Subscri-e"),
        dbus.encode(PLAIN).replace(b"/org/", b"/org-"),
        dbus.encode(PLAIN).replace(b"org.freedesktop", b"org..reedesktop"),
        dbus.encode(Message(RETURN, 1)),
        dbus.encode(Message(CALL, 1, path="/")),
    ],
)
def test_a_header_that_breaks_the_format_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="dbus: "):
        dbus.decode(data)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda end: b"l\1\0\1" + end))
def test_no_bytes_do_anything_but_read_or_be_refused(data: bytes) -> None:
    try:
        dbus.decode(data)
    except Invalid:
        return


@given(bodies(), st.data())
def test_no_change_of_a_byte_does_anything_else(
    given_body: tuple[str, tuple[object, ...]], chosen: st.DataObject
) -> None:
    signature, body = given_body
    data = bytearray(dbus.encode(Message(CALL, 7, path="/a", member="C", signature=signature, body=body)))
    for _ in range(chosen.draw(st.integers(1, 4))):
        data[chosen.draw(st.integers(0, len(data) - 1))] = chosen.draw(st.integers(0, 255))
    try:
        read = dbus.decode(bytes(data))
    except Invalid:
        return
    if read.kind in range(1, 5) and data[0] == ord("l") and not math.isnan(_first_float(read.body)):
        assert dbus.decode(dbus.encode(read)) == read


def _first_float(value: object) -> float:
    """A NaN if there is one anywhere: it is not even equal to itself."""
    found = 0.0
    for each in (
        value if isinstance(value, tuple | list) else (*value, *value.values()) if isinstance(value, dict) else ()
    ):
        found = math.nan if math.isnan(_first_float(each)) else found
    return value if isinstance(value, float) else found


@pytest.mark.parametrize(
    ("signature", "body"),
    [
        ("y", (256,)),
        ("u", (-1,)),
        ("u", ("x",)),
        ("s", (b"x",)),
        ("s", ("a\0b",)),
        ("s", ("\ud800",)),
        ("o", ("x",)),
        ("g", ("a",)),
        ("v", (7,)),
        ("v", (Variant("yy", 7),)),
        ("ay", (7,)),
        ("a{sv}", ([],)),
        ("(yy)", ((1,),)),
        ("yy", (1,)),
        ("s", ("x" * dbus.LARGEST,)),
    ],
)
def test_a_value_that_is_not_of_its_type_is_not_written(signature: str, body: tuple[object, ...]) -> None:
    with pytest.raises(Invalid, match="dbus: "):
        dbus.encode(Message(CALL, 1, path="/", member="A", signature=signature, body=body))


def test_a_length_beyond_the_limit_is_refused_before_it_is_read() -> None:
    start = BytesIO(dbus.encode(PLAIN)).read(dbus.START)
    with pytest.raises(Invalid, match="too large"):
        dbus.size(start[:4] + struct.pack("<I", dbus.LARGEST) + start[8:])

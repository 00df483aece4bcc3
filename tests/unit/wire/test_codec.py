"""The codec: every message comes back as it went, and no bytes bring anything but a message or Invalid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import dataclass
from engine.errors import Invalid
from engine.wire import codec
from engine.wire.schema import Attach, Client, Exited, LogTarget, Place, Proceed, Serve, Start

START = Start(bytes(range(256)), "/run/x", LogTarget("/log", 1, 2), clients=(Client(7, True, b"\x10\x11", True),))

SERVE = Serve("c", 1, (Place("n", "net", ("a", "b"), ("10.0.0.2",), (("alias", "a"),)),), servers=("192.0.2.1",))


@pytest.mark.parametrize("message", [START, Proceed(), Exited(137, 5), Attach(Client(1, False)), SERVE])
def test_a_message_comes_back_as_it_went(message):
    assert codec.decode(codec.encode(message)) == message


def test_fields_of_a_newer_peer_are_left_out():
    data = codec.encode(Exited(1, 2)).replace(b'"exit_code":1', b'"exit_code":1,"from_the_future":[1]')
    assert codec.decode(data) == Exited(1, 2)


def test_another_version_s_form_is_told_once(monkeypatch):
    """With what it is known by; of a version without fingerprints, with none."""
    told = []
    monkeypatch.setattr(codec, "_met", set())
    monkeypatch.setattr(codec, "_tell", None)
    codec.on_other_form(lambda *what: told.append(what))
    ours = codec.encode(Exited(1, 2))
    assert codec.decode(ours) == Exited(1, 2) and not told
    newer = ours.replace(codec.form(Exited).encode(), b"00000000")
    older = ours.replace(b'"#":"' + codec.form(Exited).encode() + b'",', b"")
    for data in (newer, older, newer):
        assert codec.decode(data) == Exited(1, 2)
    assert told == [("Exited", "00000000"), ("Exited", "")]


def test_a_form_is_another_with_each_change_of_a_field():
    def made(*fields):
        return codec.form(dataclass.dataclass(type("Made", (), {"__annotations__": dict(fields)})))

    forms = [
        made(("a", int)),
        made(("a", str)),
        made(("b", int)),
        made(("a", int), ("b", int)),
        made(("b", int), ("a", int)),
    ]
    assert len(set(forms)) == len(forms) and made(("a", int)) == forms[0]


def test_every_message_is_in_the_table():
    for name, each in codec.CLASSES.items():
        assert each.__name__ == name
        assert codec.FIELDS[each] == tuple(field.name for field in dataclass.fields(each))


@given(st.binary(max_size=200))
def test_alien_bytes_are_refused(data):
    with pytest.raises(Invalid):
        codec.decode(data)


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"@":"Nope"}', b'{"@":"Exited"}', b'{"@bytes":"!"}', b'"x"', b""])
def test_json_that_is_no_message_is_refused(data):
    with pytest.raises(Invalid):
        codec.decode(data)

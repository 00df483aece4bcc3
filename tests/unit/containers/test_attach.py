"""Detach keys, as docker writes them."""

import pytest

from engine.daemon.containers.attach import DEFAULT_DETACH_KEYS, parse_detach_keys
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (DEFAULT_DETACH_KEYS, b"\x10\x11"),
        ("ctrl-@", b"\0"),
        ("a,b", b"ab"),
        ("ctrl-[,x", b"\x1bx"),
        ("ctrl-_", b"\x1f"),
    ],
)
def test_keys_become_bytes(text, keys):
    assert parse_detach_keys(text) == keys


@pytest.mark.parametrize("text", ["ctrl-", "ctrl-é", "ab", "", "a,,b", "ctrl-1"])
def test_other_texts_are_refused(text):
    with pytest.raises(Invalid, match="Invalid detach keys"):
        parse_detach_keys(text)

"""The user's terminal: detach keys, raw mode, size."""

import os
import pty
import termios

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from engine.client.terminal import DETACH_KEYS, DetachKeys, need_terminal, raw, size
from engine.errors import Invalid


@given(some.lists(some.binary(max_size=6)))
def test_input_without_the_keys_goes_on_unchanged(pieces):
    data = b"".join(pieces)
    keys = DetachKeys()
    assume(DETACH_KEYS not in data)
    passed = b"".join(keys.feed(piece)[0] for piece in pieces)
    assert passed + DETACH_KEYS[: len(data) - len(passed)] == data


@pytest.mark.parametrize("pieces", [[b"ab\x10\x11cd"], [b"ab\x10", b"\x11cd"], [b"ab", b"\x10", b"\x11"]])
def test_the_keys_are_found_however_they_come_in(pieces):
    keys = DetachKeys()
    results = [keys.feed(piece) for piece in pieces]
    assert b"".join(passed for passed, _ in results) == b"ab"
    assert results[-1][1] is True


def test_a_first_key_twice_may_still_begin_the_sequence():
    assert DetachKeys().feed(b"\x10\x10\x11") == (b"\x10", True)


def test_raw_mode_is_put_back_also_after_a_failure():
    master, slave = pty.openpty()
    with open(master, "rb", closefd=True), open(slave, "rb", closefd=True):
        before = termios.tcgetattr(slave)
        with pytest.raises(RuntimeError), raw(slave):
            assert termios.tcgetattr(slave)[3] & termios.ICANON == 0
            raise RuntimeError
        assert termios.tcgetattr(slave) == before


def test_a_pipe_has_no_size_and_is_no_terminal():
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb"):
        assert size(reader) is None
        with pytest.raises(Invalid, match="not a TTY"):
            need_terminal(reader)


def test_a_terminal_has_the_size_that_it_was_given():
    master, slave = pty.openpty()
    with open(master, "rb"), open(slave, "rb"):
        assert size(slave) is None
        termios.tcsetwinsize(slave, (24, 80))
        assert size(slave) == (24, 80)
        need_terminal(slave)

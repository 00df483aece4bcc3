"""Frames come out the same, however the bytes were cut."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.client.frames import Demultiplexer, Plain
from engine.errors import SystemFailure

FRAMES = some.lists(some.tuples(some.sampled_from((1, 2)), some.binary(min_size=1, max_size=40)), max_size=8)


def packed(frames):
    return b"".join(struct.pack(">BxxxL", stream, len(data)) + data for stream, data in frames)


def joined(pieces):
    whole = []
    for stream, data in pieces:
        if whole and whole[-1][0] == stream:
            whole[-1] = (stream, whole[-1][1] + data)
        else:
            whole.append((stream, data))
    return whole


@given(FRAMES, some.integers(min_value=1, max_value=50))
def test_frames_cut_anywhere_give_the_same_payload(frames, cut):
    data = packed(frames)
    frames_reader = Demultiplexer()
    pieces = [piece for at in range(0, len(data), cut) for piece in frames_reader.feed(data[at : at + cut])]
    assert joined(pieces) == joined(frames)
    assert frames_reader.whole


def test_a_payload_is_passed_on_before_its_frame_is_complete():
    reader = Demultiplexer()
    assert reader.feed(b"\x02\0\0\0\0\0\0\x05ab") == [(2, b"ab")]
    assert not reader.whole
    assert reader.feed(b"cde") == [(2, b"cde")]
    assert reader.whole


def test_an_empty_frame_gives_nothing():
    assert Demultiplexer().feed(b"\x01\0\0\0\0\0\0\0") == []


def test_a_frame_of_an_unknown_stream_is_refused():
    with pytest.raises(SystemFailure, match="104"):
        Demultiplexer().feed(b"hello, world")


def test_a_terminals_output_is_all_stdout():
    assert Plain().feed(b"x") == [(1, b"x")]
    assert Plain().feed(b"") == []

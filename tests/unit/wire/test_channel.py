"""The channel: datagrams, descriptors, large messages, and the end of a connection."""

import os

import pytest

from engine.errors import Invalid
from engine.wire.channel import Channel
from engine.wire.schema import Attach, Client, Proceed


@pytest.fixture
def ends():
    left, right = Channel.pair()
    with left, right:
        yield left, right


def test_messages_keep_their_bounds_and_order(ends):
    left, right = ends
    left.send(Proceed())
    left.send(Attach(Client(1, True)))
    assert right.receive() == (Proceed(), [])
    assert right.receive() == (Attach(Client(1, True)), [])


@pytest.mark.parametrize("size", [0, 60_000, 3_000_000])
def test_descriptors_travel_with_small_and_large_messages(ends, size):
    left, right = ends
    read, write = os.pipe()
    message = Attach(Client(1, True, b"x" * size))
    left.send(message, [read, write])
    received, descriptors = right.receive()
    assert received == message
    os.write(descriptors[1], b"through")
    assert os.read(read, 100) == b"through"
    assert not any(os.get_inheritable(each) for each in descriptors)
    for each in [read, write, *descriptors]:
        os.close(each)


def test_the_end_of_the_connection_is_none(ends):
    left, right = ends
    left.close()
    assert right.receive() is None


def test_what_a_peer_has_said_is_heard_though_it_had_not_read_all(ends):
    """A Unix socket that is closed with something unread tells its peer of that first."""
    left, right = ends
    right.send(Proceed())
    left.send(Proceed())
    left.close()
    assert right.receive() == (Proceed(), [])
    assert right.receive() is None


def test_alien_bytes_are_refused(ends):
    left, right = ends
    left.socket.send(b"Jnot json")
    with pytest.raises(Invalid):
        right.receive()


def test_a_channel_works_from_a_descriptor(ends):
    left, right = ends
    adopted = Channel.adopt(os.dup(right.fileno()))
    left.send(Proceed())
    assert adopted.receive() == (Proceed(), [])
    adopted.close()

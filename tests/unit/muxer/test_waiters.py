"""Those who wait for a container's end, as both twins of the monitor keep them."""

import os
import resource
import socket

import pytest

import _muxer
from engine.monitor.waiters import Waiters
from engine.wire import waits
from engine.wire.waits import Wait
from tests.harness.ready import ready

TWINS = [pytest.param(Waiters, id="python")]
if _muxer.built():
    from engine.monitor import nativepump

    TWINS.append(pytest.param(nativepump.Waiters, id="c"))

SECONDS = 10


@pytest.fixture(params=TWINS)
def kept(request):
    """Nobody yet."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    waiters = request.param()
    yield waiters
    waiters.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture
def come(kept):
    """One more: the client's end and the daemon's."""
    ends = []

    def take(number=0, *, for_removal=False, full_close=True, after=b"."):
        near, far = socket.socketpair()
        near.settimeout(SECONDS)
        ends.extend((near, far))
        wait = Wait(number, for_removal, full_close, (b"one ", b"two ", b"three "), after)
        kept.take(waits.pack(wait), os.dup(far.fileno()))
        return near, far

    yield take
    for each in ends:
        each.close()


def told(kept):
    """Whether there is a hang-up to be seen to."""
    return ready(kept.fd)


@pytest.mark.parametrize(("code", "text"), [(7, b"one 7."), (42, b"two 42."), (137, b"three 137."), (0, b"one 0.")])
def test_an_orphan_is_answered_and_hung_up_on(kept, come, code, text):
    client, _ = come()
    kept.orphan()
    kept.answer(code, False)
    assert (client.recv(100), client.recv(100), len(kept)) == (text, b"", 0)


def test_who_has_a_daemon_is_not_answered(kept, come):
    client, _ = come()
    kept.answer(7, True)
    assert len(kept) == 1
    assert not ready(client)


def test_who_waits_for_the_removal_is_answered_then(kept, come):
    client, _ = come(for_removal=True)
    kept.orphan()
    kept.answer(7, False)
    assert len(kept) == 1
    kept.answer(7, True)
    assert client.recv(100) == b"one 7."


def test_who_was_answered_is_let_go_and_the_daemon_keeps_the_connection(kept, come):
    (client, daemon), (other, _) = come(1), come(2)
    kept.answered(waits.pack_answered(1))
    assert len(kept) == 1
    daemon.sendall(b"next")
    assert client.recv(100) == b"next"
    kept.orphan()
    kept.answer(7, False)
    assert other.recv(100) == b"one 7."


def test_a_number_of_an_earlier_daemon_is_another_one(kept, come):
    come(1)
    kept.orphan()
    come(1)
    kept.answered(waits.pack_answered(1))
    kept.answered(waits.pack_answered(1))
    assert len(kept) == 1


def test_who_hangs_up_is_told_of_and_forgotten(kept, come):
    (client, daemon), _ = come(1), come(2)
    assert not told(kept)
    client.close()
    daemon.close()
    assert told(kept)
    kept.look()
    assert (len(kept), told(kept)) == (1, False)


def test_an_end_of_sending_is_a_hang_up_only_where_nothing_else_can_be_seen(kept, come):
    (whole, _), (half, _) = come(), come(full_close=False)
    for each in (whole, half):
        each.shutdown(socket.SHUT_WR)
    kept.look()
    assert len(kept) == 1


def test_one_whom_the_daemon_has_hung_up_on_is_not_answered(kept, come):
    client, daemon = come()
    daemon.shutdown(socket.SHUT_RDWR)
    kept.orphan()
    kept.answer(7, True)
    assert (client.recv(100), len(kept)) == (b"", 0)


def test_a_client_that_has_sent_more_is_answered_all_the_same(kept, come):
    client, _ = come()
    client.sendall(b"unread")
    kept.orphan()
    kept.answer(7, True)
    assert (client.recv(100), client.recv(100)) == (b"one 7.", b"")


def test_texts_may_have_255_bytes(kept, come):
    client, _ = come(after=b"x" * 255)
    kept.orphan()
    kept.answer(137, False)
    assert client.recv(1000) == b"three 137" + b"x" * 255


@pytest.mark.parametrize("cut", [1, 13, 20])
def test_what_is_no_such_datagram_is_not_taken(kept, cut):
    near, far = socket.socketpair()
    with near, far:
        with pytest.raises((OSError, ValueError)):
            kept.take(waits.pack(Wait(1, False, True, (b"a", b"b", b"c"), b"d" * 9))[:cut], far.fileno())
        far.sendall(b"still there")
        kept.answered(b"A")
        assert len(kept) == 0


def test_there_is_room_for_as_many_as_the_hard_limit_allows(kept):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard


def test_a_wait_comes_back_as_it_was():
    wait = Wait(1 << 40, True, False, (b"", b"2", b"33"), b"\0\xff")
    assert waits.unpack(waits.pack(wait)) == wait
    assert wait.answer(7) == b"7\0\xff"

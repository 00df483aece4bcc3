"""Connections through the proxy: bytes, ends, resets, slow readers, and bounds."""

import hashlib
import os
import random
import select
import socket
import struct
import threading
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.amounts import examples
from tests.unit.proxy.carrier import PATIENCE, Carrier, client, host, lead_to, process, server

EXAMPLES = examples("MUXER_EXAMPLES", 40, 15)


def reset(sock: socket.socket) -> None:
    """Close with a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def received(sock: socket.socket) -> bytes:
    """All up to the end."""
    parts = []
    while data := sock.recv(65536):
        parts.append(data)
    return b"".join(parts)


@pytest.mark.parametrize("outer", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("inner", [socket.AF_INET, socket.AF_INET6])
def test_each_family_leads_to_each(carry: Callable[..., Carrier], outer: int, inner: int) -> None:
    """And the end of sending is passed on by itself, in both directions."""
    with host(family=outer) as outside, server(family=inner) as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        for first in (0, 1):
            with client(outside) as asking, inside.accept()[0] as answering:
                ends = asking, answering
                ends[first].sendall(b"question")
                ends[first].shutdown(socket.SHUT_WR)
                assert received(ends[1 - first]) == b"question"
                ends[1 - first].sendall(b"answer after the end")
                ends[1 - first].close()
                assert received(ends[first]) == b"answer after the end"


def test_much_arrives_whole_both_ways_at_once(carry: Callable[..., Carrier]) -> None:
    """Sixteen megabytes each way, in pieces of any size."""
    data = random.Random(1).randbytes(16 << 20)

    def send(sock: socket.socket, seed: int) -> None:
        place, sizes = 0, random.Random(seed)
        while place < len(data):
            place += sock.send(data[place : place + sizes.randrange(1, 300_000)])
        sock.shutdown(socket.SHUT_WR)

    with host() as outside, server() as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        with client(outside) as asking, inside.accept()[0] as answering:
            answering.settimeout(PATIENCE)
            senders = [threading.Thread(target=send, args=each) for each in ((asking, 2), (answering, 3))]
            got: dict[int, bytes] = {}
            readers = [
                threading.Thread(target=lambda n, sock: got.update({n: received(sock)}), args=each)
                for each in ((0, asking), (1, answering))
            ]
            for thread in (*senders, *readers):
                thread.start()
            for thread in (*senders, *readers):
                thread.join(PATIENCE)
            assert [hashlib.sha256(got[n]).digest() for n in (0, 1)] == [hashlib.sha256(data).digest()] * 2


def test_a_reader_that_does_not_read_slows_the_sender_and_nobody_else(carry: Callable[..., Carrier]) -> None:
    """What is on the way is bounded, nothing is lost, and other connections go on."""
    with host() as outside, server() as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        with client(outside) as asking, inside.accept()[0] as slow, client(outside) as other:
            asking.setblocking(False)
            quick, _ = inside.accept()
            sent = 0
            with quick:
                while select.select([], [asking], [], 0.3)[1]:
                    sent += asking.send(bytes(1 << 16))
                    assert sent < 64 << 20, "nothing holds the sender back"
                other.sendall(b"hello")
                assert quick.recv(10) == b"hello"
            asking.shutdown(socket.SHUT_WR)
            slow.settimeout(PATIENCE)
            assert len(received(slow)) == sent


@pytest.mark.parametrize("first", [0, 1])
def test_a_reset_is_passed_on(carry: Callable[..., Carrier], first: int) -> None:
    """Also after the end of sending of the other one."""
    with host() as outside, server() as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        for half in (False, True):
            ends = client(outside), inside.accept()[0]
            ends[1].settimeout(PATIENCE)
            if half:
                ends[1 - first].shutdown(socket.SHUT_WR)
                assert received(ends[first]) == b""
            reset(ends[first])
            with ends[1 - first] as left, pytest.raises(ConnectionResetError):
                while left.recv(10):
                    pass


def test_a_container_that_refuses_costs_the_client_its_connection_alone(carry: Callable[..., Carrier]) -> None:
    """The client is reset; the next one, when something listens, is served."""
    inside = server()
    lead = lead_to(inside)
    inside.close()
    with host() as outside:
        assert carry().lead([(outside, lead)]) == 0
        with pytest.raises(ConnectionResetError), client(outside) as refused:
            refused.recv(10)
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind((lead.address, lead.port))
            again.listen()
            with client(outside) as asking, again.accept()[0] as answering:
                answering.sendall(b"here")
                assert asking.recv(10) == b"here"


def test_no_more_connections_than_there_is_room_for(carry: Callable[..., Carrier]) -> None:
    """Of one container, while another one has its own; who waits is served when there is room again."""
    carrier = carry(streams=5, streams_each=3)
    with host() as outside, server() as inside, host() as elsewhere, server() as there:
        assert carrier.lead([(outside, lead_to(inside))]) == 0
        assert carrier.lead([(elsewhere, lead_to(there))], container="b" * 64) == 0
        clients = [client(outside) for _ in range(5)]
        for number, each in enumerate(clients):
            each.sendall(b"%d" % number)
        served = dict(heard(inside.accept()[0]) for _ in range(3))
        with client(elsewhere), there.accept()[0]:
            inside.settimeout(0.2)
            with pytest.raises(TimeoutError):
                inside.accept()
            inside.settimeout(PATIENCE)
        for number in list(served)[:2]:
            served.pop(number).close()
            clients[number].close()
        served |= dict(heard(inside.accept()[0]) for _ in range(2))
        for each in (*clients, *served.values()):
            each.close()


def heard(sock: socket.socket) -> tuple[int, socket.socket]:
    """The number that a client has sent, and the container's end of its connection."""
    sock.settimeout(PATIENCE)
    return int(sock.recv(1)), sock


def test_many_at_once(carry: Callable[..., Carrier]) -> None:
    """Each client gets the answer to its own question."""
    with host() as outside, server() as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        clients = [client(outside) for _ in range(50)]
        for number, each in enumerate(clients):
            each.sendall(b"%d." % number)
        for _ in clients:
            answering, _ = inside.accept()
            with answering:
                answering.settimeout(PATIENCE)
                answering.sendall(answering.recv(10))
        for number, each in enumerate(clients):
            with each:
                assert received(each) == b"%d." % number


def test_nothing_is_left_of_what_is_over(carry: Callable[..., Carrier]) -> None:
    """Descriptors, but for the few empty pipes that are kept."""
    carrier = carry()
    with host() as outside, server() as inside:
        assert carrier.lead([(outside, lead_to(inside))]) == 0
        before = len(os.listdir("/proc/self/fd"))
        for number in range(30):
            with client(outside) as asking, inside.accept()[0] as answering:
                asking.sendall(bytes(200_000)) if number % 3 else reset(answering)
        carrier.lead([(host(), lead_to(inside))], container="b" * 64)  # by its answer, all of that was handled
        with process() as ended:
            carrier.lead([(outside, lead_to(inside))], container="c" * 64, pid=ended.pid)
        assert len(os.listdir("/proc/self/fd")) < before + 30


STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.binary(min_size=1, max_size=5000), st.just(b"")), st.booleans()),
    max_size=12,
)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_two_say_the_other_hears(shared: tuple[socket.socket, socket.socket], steps: list) -> None:
    """Any order of words, ends of sending (an empty word) and waits for the other to have read."""
    outside, inside = shared
    with client(outside) as asking, inside.accept()[0] as answering:
        answering.settimeout(PATIENCE)
        ends = asking, answering
        said, heard, over = [b"", b""], [b"", b""], [False, False]
        for who, word, waits in steps:
            if over[who]:
                continue
            if word:
                ends[who].sendall(word)
                said[who] += word
            else:
                ends[who].shutdown(socket.SHUT_WR)
                over[who] = True
            while waits and len(heard[1 - who]) < len(said[who]):
                heard[1 - who] += ends[1 - who].recv(65536)
        for who in (0, 1):
            if not over[who]:
                ends[who].shutdown(socket.SHUT_WR)
        for who in (0, 1):
            heard[who] += received(ends[who])
        assert heard == said[::-1]


@pytest.fixture
def shared(carry: Callable[..., Carrier]):
    """One lead for all examples of a test."""
    with host() as outside, server() as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        yield outside, inside

"""UDP through the proxy: who asks gets the answer, from where it was asked; clients are bounded and forgotten."""

import os
import socket
from collections.abc import Callable

import pytest

from tests.unit.proxy.carrier import PATIENCE, Carrier, client, host, lead_to, server

UDP = socket.SOCK_DGRAM


@pytest.mark.parametrize("outer", [socket.AF_INET, socket.AF_INET6])
@pytest.mark.parametrize("inner", [socket.AF_INET, socket.AF_INET6])
def test_each_client_gets_its_own_answers(carry: Callable[..., Carrier], outer: int, inner: int) -> None:
    """Also several to one question, an empty one, and one as large as the loopback takes."""
    with host(UDP, outer) as outside, server(UDP, inner) as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        with client(outside) as one, client(outside) as other:
            peers = []
            for asking, word in ((one, b"one"), (other, b""), (one, bytes(60_000))):
                asking.send(word)
                data, peer = inside.recvfrom(65536)
                assert data == word
                peers.append(peer)
            assert peers[0] == peers[2] != peers[1]
            for peer, answers in ((peers[1], [b"other"]), (peers[0], [b"a", b"", bytes(60_000)])):
                for answer in answers:
                    inside.sendto(answer, peer)
            assert other.recv(65536) == b"other"
            assert [one.recv(65536) for _ in range(3)] == [b"a", b"", bytes(60_000)]


def test_answers_come_from_the_address_that_was_asked(carry: Callable[..., Carrier]) -> None:
    """A host has several: a connected client takes no answer from another one."""
    with host(UDP, socket.AF_INET, "0.0.0.0") as outside, server(UDP) as inside:
        assert carry().lead([(outside, lead_to(inside))]) == 0
        for address in ("127.0.0.1", "127.0.0.7", "127.1.2.3"):
            with socket.socket(type=UDP) as asking:
                asking.settimeout(PATIENCE)
                asking.bind(("127.0.0.1", 0))
                asking.connect((address, outside.getsockname()[1]))
                asking.send(b"?")
                _, peer = inside.recvfrom(10)
                inside.sendto(b"!", peer)
                assert asking.recv(10) == b"!"


def test_a_container_where_nobody_listens_yet_is_reached_when_somebody_does(carry: Callable[..., Carrier]) -> None:
    """The refusal of an earlier datagram costs no later one."""
    first = server(UDP)
    lead = lead_to(first)
    first.close()
    with host(UDP) as outside:
        assert carry().lead([(outside, lead)]) == 0
        with client(outside) as asking, socket.socket(type=UDP) as inside:
            inside.settimeout(0.2)
            for _ in range(3):
                asking.send(b"early")
            inside.bind((lead.address, lead.port))
            for _ in range(100):
                asking.send(b"late")
                try:
                    _, peer = inside.recvfrom(10)
                    break
                except TimeoutError:
                    continue
            inside.sendto(b"here", peer)
            assert asking.recv(10) == b"here"


def test_the_one_that_was_silent_for_longest_makes_room(carry: Callable[..., Carrier]) -> None:
    """Of the same container; another container's clients stay as they are."""
    carrier = carry(flows=20, flows_each=3)
    with host(UDP) as outside, server(UDP) as inside, host(UDP) as elsewhere, server(UDP) as there:
        assert carrier.lead([(outside, lead_to(inside))]) == 0
        assert carrier.lead([(elsewhere, lead_to(there))], container="b" * 64) == 0
        with client(elsewhere) as stranger:
            stranger.send(b"first")
            _, strange = there.recvfrom(10)
            clients = [client(outside) for _ in range(4)]
            peers = []
            for each in (*clients[:3], clients[0], clients[3]):
                each.send(b"?")
                peers.append(inside.recvfrom(10)[1])
            assert peers[3] == peers[0], "a client that is known keeps its place"
            for peer in (peers[0], peers[2], peers[4]):
                inside.sendto(b"!", peer)
            assert [clients[n].recv(10) for n in (0, 2, 3)] == [b"!"] * 3
            clients[1].send(b"again")
            assert inside.recvfrom(10)[0] == b"again"
            there.sendto(b"still", strange)
            assert stranger.recv(10) == b"still"
            for each in clients:
                each.close()


def test_when_there_is_no_room_at_all_the_oldest_of_all_makes_it(carry: Callable[..., Carrier]) -> None:
    """Whosever it is."""
    carrier = carry(flows=3, flows_each=3)
    with host(UDP) as outside, server(UDP) as inside, host(UDP) as elsewhere, server(UDP) as there:
        assert carrier.lead([(outside, lead_to(inside))]) == 0
        assert carrier.lead([(elsewhere, lead_to(there))], container="b" * 64) == 0
        before = len(os.listdir("/proc/self/fd"))
        clients = [client(outside) for _ in range(3)] + [client(elsewhere)]
        for each, at in zip(clients, (inside, inside, inside, there), strict=True):
            each.send(b"?")
            assert at.recvfrom(10)[0] == b"?"
        carrier.reconnect()
        assert len(os.listdir("/proc/self/fd")) <= before + 4 + 3
        for each in clients:
            each.close()


def test_a_client_that_is_silent_is_forgotten(carry: Callable[..., Carrier]) -> None:
    """Its socket is closed, so that the container sees another peer when it comes again."""
    with host(UDP) as outside, server(UDP) as inside:
        assert carry(idle_ms=50).lead([(outside, lead_to(inside))]) == 0
        with client(outside) as asking:
            asking.send(b"?")
            first = inside.recvfrom(10)[1]
            inside.settimeout(0.2)
            for _ in range(100):
                with pytest.raises(TimeoutError):
                    inside.recvfrom(10)  # the time that it takes
                asking.send(b"?")
                inside.settimeout(PATIENCE)
                if inside.recvfrom(10)[1] != first:
                    return
                inside.settimeout(0.2)
        raise AssertionError("it is still known")

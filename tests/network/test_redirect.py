"""Port 53 leads to the resolver's ports and nothing else is changed; where the kernel cannot, that port is taken."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

from engine.kernel import netns
from engine.kernel.netlink.socket import Netlink
from engine.resolver import nat, redirect
from engine.resolver.forward import Forwarder
from engine.resolver.loop import Loop
from engine.resolver.served import Served
from tests.harness.descriptors import none_left
from tests.network.resolving import Box

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
WAYS = (redirect.redirect, nat.lead)
Lead = Callable[[dict[int, int]], Netlink]
KINDS = {socket.IPPROTO_UDP: socket.SOCK_DGRAM, socket.IPPROTO_TCP: socket.SOCK_STREAM}


@pytest.fixture
def box() -> Iterator[Box]:
    """A network with loopback alone."""
    with Box("web") as made:
        yield made


@contextlib.contextmanager
def redirected(box: Box, lead: Lead = redirect.redirect) -> Iterator[dict[int, socket.socket]]:
    """A UDP and a TCP socket to which port 53 leads, by their protocols."""
    with contextlib.ExitStack() as stack:
        made = {protocol: stack.enter_context(box.socket(kind)) for protocol, kind in KINDS.items()}
        for each in made.values():
            each.settimeout(20.0)
            each.bind(("127.0.0.11", 0))
        made[socket.IPPROTO_TCP].listen()
        network = os.open(f"/proc/{box.pid}/ns/net", os.O_RDONLY)
        stack.callback(os.close, network)
        with netns.entered(network):
            netlink = lead({protocol: each.getsockname()[1] for protocol, each in made.items()})
        stack.callback(netlink.close)
        yield made


def exchange(box: Box, made: dict[int, socket.socket], address: str = "127.0.0.11") -> None:
    """A question and an answer by both protocols: who asks sees port 53 alone."""
    with box.socket(socket.SOCK_DGRAM) as client:
        client.settimeout(20.0)
        client.connect((address, 53))
        client.send(b"question")
        said, peer = made[socket.IPPROTO_UDP].recvfrom(100)
        assert said == b"question"
        made[socket.IPPROTO_UDP].sendto(b"answer", peer)
        assert client.recv(100) == b"answer"
    with box.socket() as client:
        client.settimeout(20.0)
        client.connect((address, 53))
        connection, _ = made[socket.IPPROTO_TCP].accept()
        with connection:
            client.sendall(b"q" * 100_000)
            got = 0
            while got < 100_000:
                got += len(connection.recv(65536))
            connection.sendall(b"answer")
            assert client.recv(100) == b"answer"


@pytest.mark.parametrize("lead", WAYS)
def test_port_53_leads_to_the_resolver_by_both_protocols_and_again_for_the_next_one(box: Box, lead: Lead) -> None:
    """A second resolver takes the place of one that was killed, in one transaction."""
    with redirected(box, lead) as made:
        exchange(box, made)
        with redirected(box, lead) as others:
            exchange(box, others)


def test_dockers_rules_take_the_place_of_those_of_an_earlier_release(box: Box) -> None:
    with redirected(box), redirected(box, nat.lead) as made:
        exchange(box, made)


@pytest.mark.parametrize("lead", WAYS)
def test_other_ports_and_addresses_lead_where_they_did(box: Box, lead: Lead) -> None:
    """Port 53 of another address, and other ports of the resolver's."""
    with redirected(box, lead), box.socket(socket.SOCK_DGRAM) as own, box.socket(socket.SOCK_DGRAM) as client:
        own.settimeout(20.0)
        own.bind(("0.0.0.0", 53))
        for address in (("127.0.0.1", 53), ("127.0.0.12", 53)):
            client.sendto(b"x", address)
            assert own.recv(10) == b"x"
        with box.socket(socket.SOCK_DGRAM) as other:
            other.settimeout(20.0)
            other.bind(("127.0.0.11", 5353))
            client.sendto(b"y", ("127.0.0.11", 5353))
            assert other.recv(10) == b"y"


def test_a_container_s_own_firewall_sees_port_53_alone(box: Box) -> None:
    """A query and its answer belong together for conntrack, and no rule has to know of other ports."""
    if shutil.which("nft") is None:
        pytest.skip("needs nft: apt-get install nftables")
    rules = """table inet own {
        chain in { type filter hook input priority 0; policy drop; ct state established accept; th dport 53 accept; }
        chain out { type filter hook output priority 0; policy drop; ct state established accept; th dport 53 accept; }
    }"""
    subprocess.run(box.command(["nft", "-f", "-"]), input=rules, text=True, check=True)
    with redirected(box) as made:
        exchange(box, made)


def served(box: Box, loop: Loop) -> Served:
    """What the resolver has of a container that it serves."""
    pidfd = os.pidfd_open(box.pid)
    network = os.open(f"/proc/{box.pid}/ns/net", os.O_RDONLY)
    return Served(loop, Forwarder(loop, tuple), network, pidfd, lambda: None)


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_program_of_the_container_may_have_the_resolvers_usual_port(box: Box, kind: int) -> None:
    with box.socket(kind) as own:
        own.bind(("0.0.0.0", nat.USUAL_PORT))
        made = served(box, Loop(lambda: True))
        udp, tcp = made._sockets
        for each in (udp, tcp):
            each.settimeout(20.0)
        exchange(box, {socket.IPPROTO_UDP: udp, socket.IPPROTO_TCP: tcp})
        made.close()


@pytest.mark.parametrize("refused", [False, True])
def test_what_one_container_does_to_the_rules_takes_them_from_no_other(
    box: Box, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    """Neither where it has removed one of the chains, nor where the kernel refuses to put the rules there again."""
    monkeypatch.setattr(Served, "_lacking", False)
    with redirected(box, nat.lead):
        pass
    deleted = redirect.NEW_CHAIN + 2
    nat_table, answers = redirect.table("nat"), "DOCKER_POSTROUTING"
    changes = [
        redirect.request(redirect.DELETE_TABLE, redirect.table(redirect.TABLE)),
        redirect.request(redirect.DELETE_RULE, nat_table, redirect.text(2, "POSTROUTING")),
        redirect.request(redirect.DELETE_RULE, nat_table, redirect.text(2, answers)),
        redirect.request(deleted, nat_table, redirect.text(3, answers)),
    ]
    network = os.open(f"/proc/{box.pid}/ns/net", os.O_RDONLY)
    with netns.entered(network), contextlib.closing(Netlink(redirect.NETLINK_NETFILTER)) as netlink:
        netlink.send(redirect.batch(changes), acknowledged=-2)
    os.close(network)
    batch = nat._batch

    def other(ports: dict[int, int], *, again: bool = False) -> list:
        missing = redirect.request(redirect.DELETE_RULE, redirect.table("nat"), redirect.text(2, "nothing"))
        return redirect.batch([missing, missing]) if again and refused else batch(ports, again=again)

    monkeypatch.setattr(nat, "_batch", other)
    one = served(box, Loop(lambda: True))
    try:
        assert not Served._lacking
    finally:
        one.close()
    if not refused:
        with redirected(box, nat.lead) as made:
            exchange(box, made)


def test_without_nf_tables_the_port_itself_is_taken_and_a_port_that_is_taken_is_a_failure(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel without it is no reason to do without names."""

    def unsupported(_ports: dict[int, int]) -> None:
        raise OSError(93, "Protocol not supported")

    monkeypatch.setattr(redirect, "redirect", unsupported)
    monkeypatch.setattr(nat, "lead", unsupported)
    monkeypatch.setattr(Served, "_lacking", False)
    loop = Loop(lambda: True)
    with none_left():
        first = served(box, loop)
        with box.socket() as client:
            client.connect(("127.0.0.11", 53))
            with pytest.raises(OSError, match="Protocol not supported"):
                served(box, loop)
        first.close()

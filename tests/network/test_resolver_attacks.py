"""What a container does to its resolver is its own trouble: nothing breaks, nothing grows, and others are answered."""

import contextlib
import random
import select
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from engine.resolver.forward import MOST_OF_ONE
from engine.resolver.served import IDLE_SECONDS, MOST_STREAMS
from tests.harness import dns
from tests.harness.dns import Asker, Upstream
from tests.harness.fixtures import World
from tests.network.resolving import Box, Site, settled


@pytest.fixture(scope="module")
def site(world: World) -> Iterator[Site]:
    """A host with a resolver."""
    made = Site(world.machine(), world.directory())
    yield made
    made.close()


@pytest.fixture(scope="module")
def boxes(site: Site) -> Iterator[tuple[Box, Box]]:
    """The one who attacks and the one who wants to be answered."""
    with Box("bad") as bad, Box("good") as good:
        site.join(bad)
        site.join(good, good.place(last=3))
        yield bad, good


@pytest.fixture
def memory(site: Site) -> Iterator[None]:
    """The resolver is the same at the end, and has not grown by more than 4 MB."""

    def resident() -> int:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * 4096

    (pid,) = site.pids()
    before = resident()
    yield
    assert site.pids() == [pid]
    assert resident() - before < 4 << 20
    assert site.crash() == ""


def taken(box: Box) -> bool:
    """Whether the resolver has read all that was sent to its sockets in there."""
    with open(f"/proc/{box.pid}/net/udp") as table:
        waiting = [line.split()[4].partition(":")[2] for line in table if "0B00007F:" in line.split()[1]]
    return not any(int(each, 16) for each in waiting)


def works(box: Box) -> None:
    """It is answered, once the resolver has taken what came before: the kernel drops what comes to a full socket."""
    assert settled(lambda: taken(box))
    with Asker(box) as asker:
        assert asker.addresses("good") == ["10.0.0.3"]


def garbage(rng: random.Random) -> bytes:
    """Bytes that look more or less like a query."""
    data = bytearray(dns.query(rng.choice(["good", "a.test", "x" * 60]), rng.choice([1, 28, 12, 255]), edns=1232))
    for _ in range(rng.randrange(6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    return bytes(data) + rng.randbytes(rng.choice([0, 0, 0, 7, 3000]))


@pytest.mark.usefixtures("memory")
def test_datagrams_of_any_bytes_do_no_harm(boxes: tuple[Box, Box]) -> None:
    """Thousands, of which some are queries; whatever comes back is DNS."""
    bad, good = boxes
    rng = random.Random(53)
    with Asker(bad, timeout=0.0) as asker:
        for _ in range(3000):
            with contextlib.suppress(OSError):  # too many at once
                asker.socket.send(garbage(rng))
            with contextlib.suppress(BlockingIOError):
                dns.decode(asker.socket.recv(65535))
    works(good)
    works(bad)


@pytest.mark.usefixtures("memory")
def test_streams_of_any_bytes_do_no_harm(boxes: tuple[Box, Box]) -> None:
    """Lengths that are wrong, messages in pieces, ends in the middle, answers that nobody reads."""
    bad, good = boxes
    rng = random.Random(54)
    for _ in range(60):
        with dns.stream(bad) as connection, contextlib.suppress(OSError):
            connection.settimeout(0.5)
            for _ in range(rng.randrange(1, 30)):
                data = garbage(rng)
                length = rng.choice([len(data), len(data), len(data), 0, 65535, rng.randrange(65536)])
                connection.send(length.to_bytes(2, "big") + data)
            if rng.random() < 0.3:
                connection.shutdown(socket.SHUT_WR)
    with dns.stream(bad) as connection:
        connection.settimeout(0.2)
        with pytest.raises(OSError):  # at last nothing more is taken, as nothing is read
            for _ in range(200_000):
                dns.send(connection, *[dns.query("good")] * 50)
        works(good)
    works(bad)


def test_many_queries_on_one_connection_are_answered_in_their_order(boxes: tuple[Box, Box]) -> None:
    """So are as many as fit into one packet."""
    bad, _ = boxes
    with dns.stream(bad) as connection:
        dns.send(connection, *(dns.query("good", number=number) for number in range(1000)))
        assert [dns.receive(connection).number for _ in range(1000)] == list(range(1000))


def test_a_connection_byte_by_byte_is_answered_and_an_idle_one_is_closed(boxes: tuple[Box, Box]) -> None:
    """What the sender has not sent cannot be waited for, but not for ever either."""
    bad, good = boxes
    with dns.stream(good) as idle, dns.stream(bad) as slow:
        data = dns.query("good")
        for byte in len(data).to_bytes(2, "big") + data:
            slow.send(bytes((byte,)))
        assert dns.receive(slow).records == ["10.0.0.3"]
        assert IDLE_SECONDS < 15
        assert idle.getpeername()[1] == 53


@pytest.mark.usefixtures("memory")
def test_more_connections_than_one_may_have_are_closed_and_the_others_go_on(boxes: tuple[Box, Box]) -> None:
    """One container's connections take nothing from another's."""
    bad, good = boxes
    with contextlib.ExitStack() as stack:
        first = [stack.enter_context(dns.stream(bad)) for _ in range(MOST_STREAMS)]
        for connection in first:
            dns.send(connection, dns.query("good"))
            assert dns.receive(connection) is not None
        for _ in range(64):
            with dns.stream(bad) as more, contextlib.suppress(ConnectionResetError):
                assert more.recv(1) == b""
        dns.send(first[0], dns.query("good"))
        assert dns.receive(first[0]).records == ["10.0.0.3"]
        works(good)
        with dns.stream(good) as connection:
            dns.send(connection, dns.query("good"))
            assert dns.receive(connection) is not None
    works(bad)


@pytest.mark.usefixtures("memory")
def test_queries_that_nobody_answers_are_bounded_and_take_nothing_from_others(
    site: Site, boxes: tuple[Box, Box]
) -> None:
    """Only so many wait; what is more is refused at once; another container's query is forwarded all the same."""
    bad, good = boxes
    asked = threading.Event()

    def answers(data: bytes, _tcp: bool) -> list[bytes]:
        asked.set()
        return [dns.answer(data, "192.0.2.1")] if b"\4fine" in data else []

    def refusals(wait: float) -> int:
        found = 0
        while select.select([asker.socket], [], [], wait if not found else 0)[0]:
            assert dns.decode(asker.socket.recv(512)).code == dns.SERVFAIL
            found += 1
        return found

    with Upstream(site.machine, answers), Asker(bad) as asker, Asker(good) as other:
        refused = 0
        for number in range(3 * MOST_OF_ONE):
            asker.socket.send(dns.query(f"n{number}.test", number=number))
            if number % 64 == 0:  # no socket on the way is to be full
                assert settled(lambda: taken(bad))
                refused += refusals(0)
        assert asked.wait(60)
        assert other.addresses("fine.test") == ["192.0.2.1"]
        works(good)
        while refused < MOST_OF_ONE:
            more = refusals(20)
            assert more, f"no more than {refused} are refused"
            refused += more


def test_a_flood_of_queries_leaves_room_for_others(boxes: tuple[Box, Box]) -> None:
    """Each has its turn: while one asks as fast as it can, another is answered."""
    bad, good = boxes
    stop = threading.Event()

    def flood() -> None:
        with Asker(bad) as asker:
            data = dns.query("good")
            while not stop.is_set():
                asker.socket.send(data)

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with Asker(good) as asker:
            for _ in range(100):
                assert asker.addresses("good") == ["10.0.0.3"]
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_another_host_s_packet_to_the_resolver_s_address_never_comes_there(site: Site, boxes: tuple[Box, Box]) -> None:
    """Even where a container lets packets to 127.0.0.0/8 in from outside (as CVE-2020-8558 needs)."""
    _, good = boxes
    rng = random.Random(1)
    name = f"peer{rng.randrange(10**6)}"
    lines = [
        f"ip link add {name} type veth peer name eth7 netns {good.pid}",
        f"ip addr add 198.51.100.1/24 dev {name}; ip link set {name} up",
        f"ip route add 127.0.0.11/32 via 198.51.100.2 dev {name}; ip route del local 127.0.0.0/8 table local",
    ]
    with Box("peer") as peer:
        for line in lines:
            subprocess.run(peer.command(["sh", "-c", line]), check=True)
        inside = "ip addr add 198.51.100.2/24 dev eth7; ip link set eth7 up; "
        inside += "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet"
        subprocess.run(good.command(["sh", "-c", inside]), check=True)
        with open(f"/proc/{good.pid}/net/udp") as table:
            ports = [int(line.split()[1].split(":")[1], 16) for line in table if "0B00007F" in line]
        assert ports
        server = Upstream(site.machine, lambda data, _: dns.answer(data, "192.0.2.1"))
        with server, peer.socket(socket.SOCK_DGRAM) as sender, Asker(good) as asker:
            sender.bind(("198.51.100.1", 0))
            for port in (53, *ports):
                sender.sendto(dns.query("from.outside.test"), ("127.0.0.11", port))
            assert asker.addresses("from.inside.test") == ["192.0.2.1"]
            # Queries of the tests before may still be tried again.
            assert "from.inside.test" in server.names()
            assert "from.outside.test" not in server.names()
    works(good)

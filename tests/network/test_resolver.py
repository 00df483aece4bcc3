"""The resolver answers what the networks know, and forwards the rest as far as it may leave."""

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from tests.harness import dns
from tests.harness.dns import Asker, Upstream
from tests.harness.fixtures import World
from tests.network.resolving import BRIDGE, INTERNAL, NET, OTHER, Box, Site, settled

Boxes = Callable[..., Box]


@pytest.fixture(scope="module")
def place(world: World) -> Iterator[Site]:
    """A host with a spawner; the resolver comes with the first name."""
    made = Site(world.machine(), world.directory())
    yield made
    made.close()


@pytest.fixture
def site(place: Site) -> Iterator[Site]:
    """The same, and at the end of the test nobody is served."""
    yield place
    place.leave_all()


@pytest.fixture
def box(site: Site) -> Iterator[Boxes]:
    """Make containers of these names, which end with the test."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(Box(name))


def said(*addresses: str, **how: object) -> Callable[[bytes, bool], bytes]:
    """A server that says the same to everybody."""
    return lambda asked, _tcp: dns.answer(asked, *addresses, **how)


def test_containers_of_a_network_find_each_other_by_udp_and_tcp(site: Site, box: Boxes) -> None:
    """Names, aliases, ids, in any case, with the network's name; addresses of both families; and back."""
    web, db = box("web"), box("db")
    site.join(web)
    site.join(db, db.place(NET, "Store", last=3))
    with Asker(web) as asker:
        for name in ("db", "DB.net", "store", "dbdbdbdbdbdb"):
            assert asker.addresses(name) == ["10.0.0.3"], name
            assert asker.addresses(name, dns.AAAA) == ["fd00::3"]
        assert asker.addresses("3.0.0.10.in-addr.arpa", dns.PTR) == ["db.net"]
        assert asker.addresses("web") == ["10.0.0.2"]
    with dns.stream(db) as connection:
        dns.send(connection, dns.query("web", number=1), dns.query("web", dns.AAAA, number=2))
        assert [dns.receive(connection).records for _ in range(2)] == [["10.0.0.2"], ["fd00::2"]]


def test_a_container_keeps_port_53_of_all_its_addresses_for_itself(site: Site, box: Boxes) -> None:
    """The resolver's sockets have other ports, and what a program of the container's binds is its own."""
    web = box("web")
    site.join(web)
    with Upstream(web, said("192.0.2.53"), "0.0.0.0"), Asker(web) as asker, Asker(web, "127.0.0.1") as own:
        assert asker.addresses("web") == ["10.0.0.2"]
        assert own.addresses("web") == ["192.0.2.53"]


def test_networks_are_apart_and_one_in_both_sees_both(site: Site, box: Boxes) -> None:
    """A name is answered from the networks of who asks, in their order."""
    web, db, both = box("web"), box("db"), box("both")
    site.join(web)
    site.join(db, db.place(OTHER, "web"))
    site.join(both, both.place(OTHER, last=3), both.place(NET, last=3))
    with Asker(web) as in_net, Asker(db) as in_other, Asker(both) as in_both:
        assert in_net.ask("db").code == dns.SERVFAIL
        assert in_net.addresses("web") == ["10.0.0.2"]
        assert in_other.addresses("web") == ["10.1.0.2"]
        assert in_both.addresses("web") == ["10.1.0.2"]
        assert in_both.addresses("web.net") == ["10.0.0.2"]
        assert in_both.addresses("db") == ["10.1.0.2"]


def test_who_comes_and_goes_is_found_and_not_found_at_once(site: Site, box: Boxes) -> None:
    """Connected, renamed, disconnected, ended: with the call that says so."""
    web, db = box("web"), box("db")
    site.join(web)
    site.join(db)
    first, second = db.place(NET, "more"), db.place(OTHER)
    with Asker(web) as asker:
        site.join(db, first, second)
        assert asker.addresses("more") == ["10.0.0.2"]
        site.names.leave([first[1]])
        assert asker.ask("more").code == dns.SERVFAIL
        assert asker.ask("db").code == dns.SERVFAIL
        with Asker(db) as other:
            assert other.addresses("db") == ["10.1.0.2"]
        site.join(db, first, second)
        site.names.leave([first[1], second[1]])
        assert asker.ask("db").code == dns.SERVFAIL
        with Asker(db, timeout=0.2) as other, pytest.raises(OSError):
            other.ask("db")


def test_links_are_known_to_one_container_alone(site: Site, box: Boxes) -> None:
    """The alias of a link stands for another's name, whoever has that."""
    web, db = box("web"), box("db")
    site.join(web, links={NET.id: {"store": "db"}})
    site.join(db, db.place(last=3))
    with Asker(web) as asker, Asker(db) as other:
        assert asker.addresses("store") == ["10.0.0.3"]
        assert other.ask("store").code == dns.SERVFAIL


def test_many_of_one_alias_are_cut_by_udp_and_whole_by_tcp(site: Site, box: Boxes) -> None:
    """A client that sees an answer cut asks again by TCP, and gets all of them."""
    boxes = [box(f"c{number}") for number in range(40)]
    for number, each in enumerate(boxes):
        site.join(each, each.place(NET, "all", last=number + 2))
    with Asker(boxes[0]) as asker, dns.stream(boxes[0]) as connection:
        cut = asker.ask("all")
        assert cut.truncated
        assert 0 < len(cut.records) < 40
        assert len(asker.ask("all", edns=1232).records) == 40
        assert len({asker.ask("all").records[0] for _ in range(40)}) == 40, "each comes first once"
        dns.send(connection, dns.query("all"))
        assert len(set(dns.receive(connection).records)) == 40


def test_what_no_network_knows_is_asked_of_the_host_s_servers_by_the_same_way(site: Site, box: Boxes) -> None:
    """From the host's network, with EDNS as it came, under another number; the answer as it came."""
    web = box("web")
    site.join(web)
    with Upstream(site.machine, said("192.0.2.1", ttl=7)) as server, Asker(web) as asker:
        reply = asker.ask("Example.test", dns.A, number=4711, edns=1400)
        assert (reply.number, reply.records, reply.ttls) == (4711, ["192.0.2.1"], [7])
        asker.ask("example.test", dns.HTTPS)
        assert server.seen[0][0][2:] == dns.query("Example.test", edns=1400)[2:]
        numbers = {sent[:2] for sent, *_ in server.seen}
        with dns.stream(web) as connection:
            dns.send(connection, dns.query("a.test", number=9))
            assert dns.receive(connection).number == 9
        assert [tcp for _, tcp, _ in server.seen] == [False, False, True]
        assert len(numbers) == 2


@pytest.mark.parametrize("code", [dns.NXDOMAIN, dns.NOERROR])
def test_a_server_s_no_is_an_answer(site: Site, box: Boxes, code: int) -> None:
    """No such name, or no such record."""
    web = box("web")
    site.join(web)
    with Upstream(site.machine, said(code=code)), Asker(web) as asker:
        reply = asker.ask("nosuch.test")
        assert (reply.code, reply.records) == (code, [])


def test_an_answer_that_was_cut_is_passed_on_as_cut(site: Site, box: Boxes) -> None:
    """The client asks again by TCP, and so does the resolver."""
    web = box("web")
    site.join(web)
    many = [f"192.0.2.{number}" for number in range(200)]

    def answers(asked: bytes, tcp: bool) -> bytes:
        return dns.answer(asked, *many) if tcp else dns.answer(asked, *many[:3], truncated=True)

    with Upstream(site.machine, answers), Asker(web) as asker, dns.stream(web) as connection:
        reply = asker.ask("many.test")
        assert reply.truncated
        dns.send(connection, dns.query("many.test"))
        assert dns.receive(connection).records == many


def test_an_answer_that_is_longer_than_the_client_takes_is_cut(site: Site, box: Boxes) -> None:
    """Whatever a server sends: a datagram has the size that the client asked for, and what is not there is by TCP."""
    web = box("web")
    site.join(web)
    many = [f"192.0.2.{number}" for number in range(200)]
    with Upstream(site.machine, said(*many)), Asker(web) as asker:
        assert asker.ask("many.test", edns=4096).records == many
        reply = asker.ask("many.test", edns=1232)
        assert (reply.truncated, reply.records, reply.code) == (True, [], dns.NOERROR)


@pytest.mark.alone
def test_a_server_that_cannot_help_is_passed_over(site: Site, box: Boxes) -> None:
    """Refused by the host, refused in DNS, failed: the next one is asked at once."""
    web = box("web")
    site.join(web, Dns=["127.0.0.2", "127.0.0.3", "127.0.0.4"])
    failing = Upstream(web, said(code=dns.SERVFAIL), "127.0.0.3")
    with failing, Upstream(web, said("192.0.2.4"), "127.0.0.4"), Asker(web) as asker:
        began = time.monotonic()
        assert asker.addresses("a.test") == ["192.0.2.4"]
        assert time.monotonic() - began < 1.5
        assert len(failing.seen) == 1
        site.join(web, Dns=["127.0.0.2", "127.0.0.3"])
        assert asker.ask("a.test").code == dns.SERVFAIL


@pytest.mark.alone
def test_a_server_that_is_silent_is_passed_over_and_may_answer_late(site: Site, box: Boxes) -> None:
    """Meanwhile others are served; the impatient who ask again are not asked for twice."""
    web, db = box("web"), box("db")
    site.join(web, Dns=["127.0.0.2", "127.0.0.3"])
    site.join(db)
    silent = Upstream(web, lambda *_: [], "127.0.0.2")
    with silent, Upstream(web, said("192.0.2.3"), "127.0.0.3") as second, Asker(web) as asker:
        began = time.monotonic()
        for _ in range(3):
            asker.socket.send(dns.query("a.test"))
        with Asker(db) as other:
            assert other.addresses("db") == ["10.0.0.2"]
        assert time.monotonic() - began < 1.5
        assert dns.decode(asker.socket.recv(512)).records == ["192.0.2.3"]
        assert 1.5 < time.monotonic() - began < 4.0
        assert (len(silent.seen), len(second.seen)) == (1, 1)


def test_the_host_s_servers_are_those_of_now(site: Site, box: Boxes) -> None:
    """A host that had no network when the container began, and has one now."""
    web = box("web")
    site.join(web)
    with Upstream(site.machine, said("192.0.2.1")), Asker(web) as asker:
        site.resolv_conf.write_text("")
        assert settled(lambda: asker.ask("a.test").code == dns.SERVFAIL)
        site.resolv_conf.write_text("nameserver 127.0.0.1\n")
        assert settled(lambda: asker.ask("a.test").records == ["192.0.2.1"])


def test_servers_that_were_asked_for_are_asked_from_the_container_s_network(site: Site, box: Boxes) -> None:
    """`--dns 127.0.0.1` is the container's own server, and the host's is not asked."""
    web = box("web")
    site.join(web, Dns=["127.0.0.1"])
    with Upstream(site.machine, said("192.0.2.1")) as host, Upstream(web, said("192.0.2.2")), Asker(web) as asker:
        assert asker.addresses("a.test") == ["192.0.2.2"]
        assert host.seen == []
        with dns.stream(web) as connection:
            dns.send(connection, dns.query("a.test"))
            assert dns.receive(connection).records == ["192.0.2.2"]


def test_no_query_of_an_internal_network_leaves(site: Site, box: Boxes) -> None:
    """CVE-2024-29018: neither to the host's servers nor to those asked for; with another network it may."""
    web, db = box("web"), box("db")
    site.join(web, web.place(INTERNAL))
    site.join(db, db.place(INTERNAL, last=3), db.place(BRIDGE))
    with Upstream(site.machine, said("192.0.2.1")) as server, Asker(web) as asker:
        assert asker.addresses("db") == ["10.2.0.3"]
        assert asker.ask("secret.attacker.test").code == dns.SERVFAIL
        with dns.stream(web) as connection:
            dns.send(connection, dns.query("secret.attacker.test"))
            assert dns.receive(connection).code == dns.SERVFAIL
        assert server.seen == []
        with Asker(db) as other:
            assert other.addresses("open.test") == ["192.0.2.1"]
        site.names.leave([db.place(BRIDGE)[1]])
        with Asker(db) as other:
            assert other.ask("closed.test").code == dns.SERVFAIL
        assert server.names() == ["open.test"]


def test_names_of_one_label_stay_here_where_somebody_has_set_ndots(site: Site, box: Boxes) -> None:
    """They are answered with nothing, so that the client goes on with its search list."""
    web, db = box("web"), box("db")
    site.join(web, DnsOptions=["ndots:2"])
    site.join(db)
    with Upstream(site.machine, said("192.0.2.1")) as server, Asker(web) as asker, Asker(db) as other:
        reply = asker.ask("shop")
        assert (reply.code, reply.records) == (dns.NOERROR, [])
        assert asker.addresses("shop.test") == ["192.0.2.1"]
        assert other.addresses("shop") == ["192.0.2.1"]
        assert server.names() == ["shop.test", "shop"]


def test_only_an_answer_to_the_question_is_believed(site: Site, box: Boxes) -> None:
    """Another number, another question, no answer at all: as if nothing had come."""
    web = box("web")
    site.join(web)

    def answers(asked: bytes, _tcp: bool) -> list[bytes]:
        other = bytes((asked[0] ^ 1,)) + asked[1:]
        wrong = dns.query("wrong.test", number=int.from_bytes(asked[:2], "big"))
        good = dns.answer(asked, "192.0.2.1")
        return [dns.answer(other, "192.0.2.66"), dns.answer(wrong, "192.0.2.66"), b"x", asked, good]

    with Upstream(site.machine, answers), Asker(web) as asker:
        assert asker.addresses("right.test") == ["192.0.2.1"]

"""What a container sees of its networks: who has a name, in which order, and who is not there any more."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.resolver.packets import Query
from engine.resolver.zones import View, Zone
from engine.wire.schema import Place
from tests.harness import dns


def place(*names: str, at: tuple[str, ...] = ("10.0.0.2",), network: str = "net", **links: str) -> Place:
    """A place in a network."""
    return Place(network, network, names, at, tuple(links.items()))


def seen(*zones: Zone, **links: str) -> View:
    """What a container in these networks sees; links: in all of them."""
    return View([(zone, place(**links)) for zone in zones])


def asked(view: View, name: str, kind: int = dns.A, group: int = 1) -> list[str] | None:
    """What the view says; None where it does not know the name."""
    query = Query(dns.query(name, kind, group=group))
    records = view.records(query)
    return None if records is None else dns.decode(query.answer(records)).records


@pytest.fixture
def zone() -> Zone:
    """A network with two containers, of which one has IPv6 too."""
    made = Zone()
    made.put("1", place("web", "1234", "www"))
    made.put("2", place("db", "www", at=("10.0.0.3", "fd00::3")))
    return made


@pytest.mark.parametrize("name", ["web", "WEB", "wEb", "1234", "web.net", "WEB.Net", "www.net"])
def test_names_are_known_in_any_case_alone_and_with_the_network_behind(zone, name):
    assert "10.0.0.2" in asked(seen(zone), name)


@pytest.mark.parametrize("name", ["web.other", "we", "webb", "x.web", "net", "web.net.net", ""])
def test_other_names_are_nobodys(zone, name):
    assert asked(seen(zone), name) is None


@pytest.mark.parametrize("kind", [dns.AAAA, dns.MX, dns.TXT, dns.HTTPS, dns.SRV])
def test_a_known_name_is_answered_whatever_is_asked_of_it(zone, kind):
    """Or others would be asked, who would say that there is no such name at all."""
    assert asked(seen(zone), "web", kind) == []


def test_each_family_is_answered_with_its_addresses_and_any_with_both(zone):
    assert asked(seen(zone), "db", dns.AAAA) == ["fd00::3"]
    assert sorted(asked(seen(zone), "db", dns.ANY)) == ["10.0.0.3", "fd00::3"]


def test_another_class_is_not_for_the_networks(zone):
    assert asked(seen(zone), "web", group=3) is None
    assert asked(seen(zone), "web", group=255) == ["10.0.0.2"]


def test_those_of_one_alias_come_first_in_turn(zone):
    zone.put("3", place("api", "www", at=("10.0.0.4",)))
    answers = [tuple(asked(seen(zone), "www")) for _ in range(6)]
    assert {frozenset(answer) for answer in answers} == {frozenset({"10.0.0.2", "10.0.0.3", "10.0.0.4"})}
    assert [answer[0] for answer in answers[:3]] == [answer[0] for answer in answers[3:]]
    assert len({answer[0] for answer in answers}) == 3


def test_a_container_that_has_gone_is_not_found_and_the_others_are(zone):
    zone.remove("1")
    zone.remove("1")
    assert asked(seen(zone), "web") is None
    assert asked(seen(zone), "1234.net") is None
    assert asked(seen(zone), "2.0.0.10.in-addr.arpa", dns.PTR) is None
    assert asked(seen(zone), "www") == ["10.0.0.3"]
    assert bool(zone)
    zone.remove("2")
    assert not zone


def test_a_new_place_takes_that_of_the_old_one(zone):
    zone.put("1", place("shop", at=("10.0.0.9",)))
    assert asked(seen(zone), "web") is None
    assert asked(seen(zone), "shop") == ["10.0.0.9"]
    assert asked(seen(zone), "2.0.0.10.in-addr.arpa", dns.PTR) is None
    assert asked(seen(zone), "9.0.0.10.in-addr.arpa", dns.PTR) == ["shop.net"]


def test_an_address_that_another_has_by_now_stays_the_other_s(zone):
    zone.put("3", place("next"))
    zone.remove("1")
    assert asked(seen(zone), "2.0.0.10.in-addr.arpa", dns.PTR) == ["next.net"]


def test_an_address_has_the_first_name_with_the_network_behind(zone):
    assert asked(seen(zone), "2.0.0.10.in-addr.arpa", dns.PTR) == ["web.net"]
    assert asked(seen(zone), "2.0.0.10.IN-ADDR.arpa", dns.A) == []
    assert asked(seen(zone), "3" + ".0" * 27 + ".0.0.d.f.ip6.arpa", dns.PTR) == ["db.net"]
    assert asked(seen(zone), "4.0.0.10.in-addr.arpa", dns.PTR) is None


def test_the_first_network_that_knows_a_name_answers_alone(zone):
    other = Zone()
    other.put("3", place("web", "only", at=("10.1.0.2",), network="other"))
    assert asked(seen(zone, other), "web") == ["10.0.0.2"]
    assert asked(seen(other, zone), "web") == ["10.1.0.2"]
    assert asked(seen(zone, other), "web.other") == ["10.1.0.2"]
    assert asked(seen(zone, other), "only") == ["10.1.0.2"]
    assert asked(seen(zone), "only") is None, "a network that it is not in"


def test_a_link_is_one_container_s_own_and_comes_first(zone):
    view = seen(zone, web="db", other="nobody", bad="a..b")
    assert asked(view, "web") == ["10.0.0.3"]
    assert asked(view, "WEB") == ["10.0.0.3"]
    assert asked(view, "other") is None
    assert asked(seen(zone), "web") == ["10.0.0.2"]


def test_what_cannot_be_asked_for_does_no_harm(zone):
    zone.put("3", place("a..b", "x" * 64, "", "fine", at=("10.0.0.9",)))
    assert asked(seen(zone), "fine") == ["10.0.0.9"]
    assert asked(seen(zone), "9.0.0.10.in-addr.arpa", dns.PTR) is None
    zone.remove("3")
    assert asked(seen(zone), "fine") is None


def test_a_container_without_an_address_has_a_name_and_no_record(zone):
    zone.put("3", place("empty", at=()))
    assert asked(seen(zone), "empty") == []


class Networks(RuleBasedStateMachine):
    """Containers come, change and go in one network; it answers as a plain dictionary of them says."""

    def __init__(self) -> None:
        super().__init__()
        self.zone = Zone()
        self.there: dict[str, Place] = {}

    @rule(
        container=st.sampled_from("abcd"),
        names=st.lists(st.sampled_from(["x", "y", "Y", "z.net"]), max_size=3),
        last=st.integers(1, 3),
    )
    def put(self, container: str, names: list[str], last: int) -> None:
        """One comes, or changes."""
        self.there[container] = place(*names, at=(f"10.0.0.{last}",))
        self.zone.put(container, self.there[container])

    @rule(container=st.sampled_from("abcd"))
    def remove(self, container: str) -> None:
        """One goes."""
        self.there.pop(container, None)
        self.zone.remove(container)

    @invariant()
    def answers(self) -> None:
        """Each name has the addresses of all that have it."""
        for name in ("x", "y", "z.net", "x.net", "z.net.net"):
            plain = [each for each in self.there.values() if name in map(str.lower, each.names)]
            found = plain or [
                each for each in self.there.values() if name in {f"{own}.net".lower() for own in each.names}
            ]
            said = asked(seen(self.zone), name)
            assert (None if said is None else sorted(said)) == (
                sorted(e.addresses[0] for e in found) if found else None
            )
        assert bool(self.zone) == bool(self.there)


TestNetworks = Networks.TestCase
TestNetworks.settings = settings(max_examples=40, stateful_step_count=20)

"""Addresses are given to one at a time, the lowest first, and never those that are kept."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.network.ipam import Addresses, Space
from engine.daemon.network.record import Pool
from engine.errors import EngineError, Forbidden, Invalid

WHERE = "net (id)"


def test_the_first_the_last_the_gateway_and_the_auxiliary_ones_are_given_to_nobody():
    space = Space(Pool("10.0.0.0/29", gateway="10.0.0.1", aux={"router": "10.0.0.3"}))
    assert [space.take_lowest() for _ in range(4)] == ["10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    assert space.take_lowest() is None


def test_an_ipv6_subnet_keeps_its_first_address_alone():
    space = Space(Pool("fd00::/126"))
    assert [space.take_lowest() for _ in range(4)] == ["fd00::1", "fd00::2", "fd00::3", None]


@pytest.mark.parametrize(
    ("subnet", "given_"), [("10.0.0.0/31", ["10.0.0.0", "10.0.0.1"]), ("10.0.0.7/32", ["10.0.0.7"])]
)
def test_a_link_of_two_keeps_none(subnet, given_):
    space = Space(Pool(subnet))
    assert [space.take_lowest() for _ in range(len(given_) + 1)] == [*given_, None]


def test_of_a_range_the_whole_is_given_and_nothing_else():
    space = Space(Pool("10.0.0.0/24", "10.0.0.64/30", "10.0.0.1"))
    assert [space.take_lowest() for _ in range(5)] == ["10.0.0.64", "10.0.0.65", "10.0.0.66", "10.0.0.67", None]
    space.take("10.0.0.9")  # whoever asks for one may have it from the whole subnet
    assert space.status() == {"IPsInUse": 8, "DynamicIPsAvailable": 0}


def test_a_released_address_is_the_next_one_if_it_is_the_lowest():
    space = Space(Pool("10.0.0.0/24", gateway="10.0.0.1"))
    taken = [space.take_lowest() for _ in range(5)]
    space.release(taken[3])
    space.release(taken[1])
    assert [space.take_lowest() for _ in range(3)] == [taken[1], taken[3], "10.0.0.7"]


def test_the_status_counts_as_dockerd_does():
    """The transcript, call 264."""
    space = Space(Pool("10.123.0.0/24", gateway="10.123.0.1"))
    space.take_lowest()
    assert space.status() == {"IPsInUse": 4, "DynamicIPsAvailable": 252}
    assert Space(Pool("fd00::/8")).status() == {"IPsInUse": 1, "DynamicIPsAvailable": 2**64 - 1}


def test_an_address_that_is_asked_for_is_taken_once():
    addresses = Addresses([Pool("10.0.0.0/24", gateway="10.0.0.1"), Pool("fd00::/64")])
    assert addresses.take(4, "10.0.0.5", WHERE)[0] == "10.0.0.5"
    for text in ("10.0.0.5", "10.0.0.1", "10.0.0.0", "10.0.0.255"):
        with pytest.raises(Forbidden, match="Address already in use"):
            addresses.take(4, text, WHERE)
    with pytest.raises(Invalid, match="does not belong to any of this network's subnets"):
        addresses.take(4, "10.0.1.5", WHERE)
    with pytest.raises(Invalid):
        addresses.take(4, "fd00::5", WHERE)


def test_a_full_pool_is_followed_by_the_next_and_then_by_dockerds_error():
    addresses = Addresses([Pool("10.0.0.0/30", gateway="10.0.0.1"), Pool("10.1.0.0/30")])
    assert [addresses.take(4, "", WHERE)[0] for _ in range(3)] == ["10.0.0.2", "10.1.0.1", "10.1.0.2"]
    with pytest.raises(EngineError) as caught:
        addresses.take(4, "", WHERE)
    assert str(caught.value) == "no available IPv4 addresses on this network's address pools: net (id)"
    addresses.release("10.0.0.2", "")
    assert addresses.take(4, "", WHERE)[0] == "10.0.0.2"


@given(
    st.sampled_from(["10.0.0.0/27", "10.0.0.0/31", "fd00::/124", "fd00::/125"]),
    st.integers(0, 3),
    st.lists(st.tuples(st.sampled_from(["take", "ask", "release"]), st.integers(0, 40)), max_size=80),
)
def test_no_address_is_ever_given_twice(subnet, narrower, steps):
    """Against a plain set: the lowest free one of the range, none that is given, none outside."""
    whole = ipaddress.ip_network(subnet)
    ranges = list(whole.subnets(min(narrower, whole.max_prefixlen - whole.prefixlen)))
    inner = ranges[-1]
    space = Space(Pool(subnet, str(inner) if inner != whole else ""))
    kept = set()
    if whole.version == 6 or whole.num_addresses > 2:
        kept = {whole[0]} if whole.version == 6 else {whole[0], whole[-1]}
    given_ = set()
    for step, number in steps:
        address = whole[number % whole.num_addresses]
        if step == "take":
            free = [each for each in inner if each not in given_ | kept]
            assert space.take_lowest() == (str(free[0]) if free else None)
            given_ |= set(free[:1])
        elif step == "ask" and address in given_ | kept:
            with pytest.raises(Forbidden):
                space.take(str(address))
        elif step == "ask":
            space.take(str(address))
            given_.add(address)
        elif address in given_:
            space.release(str(address))
            given_.discard(address)
    assert space.status()["IPsInUse"] == len(given_ | kept)

"""Subnets out of the daemon's pools: the lowest that overlaps nothing."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.network import pools
from engine.daemon.network.addresses import Subnet
from engine.daemon.network.surroundings import Surroundings
from engine.errors import Invalid

ID = "6a1c0ffe-0000-4000-8000-000000000000"
NOTHING = Surroundings()


def subnets(*texts: str) -> tuple[Subnet, ...]:
    """Subnets from their texts."""
    return tuple(map(Subnet.parse, texts))


def test_the_defaults_are_dockerds_in_dockerds_order():
    sources = pools.sources((), ID)
    found: list[Subnet] = []
    while True:
        try:
            found.append(pools.choose(sources, 4, found, NOTHING))
        except Invalid as error:
            assert str(error) == "all predefined address pools have been fully subnetted"
            break
    texts = [str(each) for each in found]
    assert texts[:15] == [f"172.{number}.0.0/16" for number in range(17, 32)]
    assert texts[15:] == [f"192.168.{number}.0/20" for number in range(0, 256, 16)]


def test_ipv6_comes_from_unique_local_addresses_of_the_daemons_own():
    own, other = pools.unique_local(ID), pools.unique_local("another")
    assert own != other and own.bits == 48 and str(own).startswith("fd") and own == pools.unique_local(ID)
    first = pools.choose(pools.sources((), ID), 6, (), NOTHING)
    assert (first.first, first.bits) == (own.first, 64)
    assert pools.choose(pools.sources((), ID), 6, [first], NOTHING).first == own.first + 2**64


def test_what_the_settings_say_takes_the_place_of_the_defaults():
    sources = pools.sources(("10.9.0.0/16,24", "10.8.0.0/24,25"), ID)
    taken: list[Subnet] = []
    for _ in range(3):
        taken.append(pools.choose(sources, 4, taken, NOTHING))
    assert [str(each) for each in taken] == ["10.8.0.0/25", "10.8.0.128/25", "10.9.0.0/24"]
    assert str(pools.choose(sources, 6, (), NOTHING)).startswith("fd")
    assert str(pools.choose(pools.sources(("fd12::/48,64",), ID), 6, (), NOTHING)) == "fd12::/64"
    with pytest.raises(Invalid, match="invalid address pool"):
        pools.choose(pools.sources(("fd12::/48,64",), ID), 4, (), NOTHING)


def test_a_length_may_be_asked_for():
    sources = pools.sources((), ID)
    assert str(pools.choose(sources, 4, subnets("172.17.0.0/24"), NOTHING, 24)) == "172.17.1.0/24"
    with pytest.raises(Invalid):
        pools.choose(sources, 4, (), NOTHING, 8)


def test_what_the_host_reaches_is_left_alone():
    near = Surroundings(near=subnets("172.17.0.0/24", "172.18.5.9/32"))
    assert str(pools.choose(pools.sources((), ID), 4, (), near)) == "172.19.0.0/16"
    far = Surroundings(far=subnets("172.16.0.0/12"))
    assert str(pools.choose(pools.sources((), ID), 4, (), far)) == "192.168.0.0/20"


def test_a_host_that_sends_everything_through_a_gateway_has_networks_all_the_same():
    """A VPN's 0.0.0.0/1 and 128.0.0.0/1 are no reason to have no subnet."""
    around = Surroundings(near=subnets("172.17.0.1/32"), far=subnets("0.0.0.0/1", "128.0.0.0/1"))
    assert str(pools.choose(pools.sources((), ID), 4, (), around)) == "172.18.0.0/16"


BLOCKS = st.builds(
    lambda number, bits: ipaddress.ip_network(((10 << 24) + (number << 12), bits), strict=False),
    st.integers(0, 63),
    st.integers(12, 24),
)


@given(st.lists(BLOCKS, max_size=12), st.integers(16, 20))
def test_a_chosen_subnet_is_the_lowest_that_overlaps_nothing(blocks, bits):
    base = ipaddress.ip_network("10.0.0.0/14")
    free = [each for each in base.subnets(new_prefix=bits) if not any(each.overlaps(block) for block in blocks)]
    sources = [pools.Source(Subnet.parse(str(base)), bits)]
    taken = subnets(*map(str, blocks))
    if free:
        assert str(pools.choose(sources, 4, taken, NOTHING)) == str(free[0])
    else:
        with pytest.raises(Invalid):
            pools.choose(sources, 4, taken, NOTHING)

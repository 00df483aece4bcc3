"""Addresses and subnets as numbers say what the module ipaddress says."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.network.addresses import BITS, Subnet, canonical, parse_address, show_address

ADDRESSES = st.ip_addresses()
SUBNETS = st.builds(
    lambda address, bits: ipaddress.ip_network((address, bits % (address.max_prefixlen + 1)), strict=False),
    ADDRESSES,
    st.integers(0, 128),
)


@given(ADDRESSES)
def test_an_address_is_its_number(address):
    assert parse_address(str(address)) == (address.version, int(address))
    version, number = parse_address(show_address(address.version, int(address)))
    assert (version, number) == (address.version, int(address))


@given(SUBNETS, SUBNETS)
def test_subnets_overlap_as_ipaddress_says(one, two):
    ours = Subnet.parse(str(one)), Subnet.parse(str(two))
    same = one.version == two.version
    assert ours[0].overlaps(ours[1]) == ours[1].overlaps(ours[0]) == (same and one.overlaps(two))
    assert (ours[0].first, ours[0].last, ours[0].size) == (int(one[0]), int(one[-1]), one.num_addresses)
    assert Subnet.parse(str(ours[0])) == ours[0]


@given(ADDRESSES, st.integers(0, 128))
def test_an_address_is_in_the_subnet_around_it(address, bits):
    bits = min(bits, BITS[address.version])
    subnet = Subnet.around(address.version, int(address), bits)
    assert int(address) in subnet and subnet.bits == bits


@pytest.mark.parametrize(
    "text", ["", "10", "10.0.0", "10.0.0.256", "01.2.3.4", "::g", "fe80::1%eth0", "1.2.3.4\0", "a.b"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ValueError, match=r"IP address|null"):
        parse_address(text)


@pytest.mark.parametrize(
    "text", ["10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "::/129", "::/-1", "10.0.0.0/1x", "/8", "::/1000"]
)
def test_what_is_no_subnet_is_refused(text):
    with pytest.raises(ValueError, match="not a"):
        Subnet.parse(text)


def test_an_address_has_one_text():
    assert canonical("FD00:0:0::0:1") == "fd00::1"

"""The daemon's options of networks: forms that are brought to one, and those that are refused."""

import pytest

from engine.errors import Invalid
from engine.settings import every, network


def made(*arguments: str) -> every.Settings:
    """The settings of a daemon without a configuration file."""
    return every.from_arguments(["--config-file", "/dev/null", *arguments], {}, 0)


def test_the_defaults_are_dockerds():
    chosen = made()
    assert (chosen.bridge, chosen.bip, chosen.ipv6, chosen.mtu, chosen.ip) == ("", "", False, "1500", "0.0.0.0")
    assert (chosen.icc, chosen.ip_masq, chosen.ip_forward, chosen.iptables, chosen.ip6tables) == (True,) * 5
    assert (chosen.default_address_pools, chosen.default_network_opts, chosen.ip_forward_no_drop) == ((), (), False)


def test_addresses_come_in_their_canonical_form():
    chosen = made("--bip=10.1.0.1/16", "--bip6", "FD00:0:0::1/64", "--dns", "2001:DB8::0:1", "--dns", "9.9.9.9")
    assert (chosen.bip, chosen.bip6, chosen.dns) == ("10.1.0.1/16", "fd00::1/64", ("2001:db8::1", "9.9.9.9"))


def test_pools_and_options_may_be_given_again_and_again():
    chosen = made(
        *("--default-address-pool", "base=10.0.0.0/8,size=24", "--default-address-pool", "size=64,base=fd00::/48"),
        *("--default-network-opt", "bridge=a=b=c", "--default-network-opt", "macvlan=d="),
    )
    assert chosen.default_address_pools == ("10.0.0.0/8,24", "fd00::/48,64")
    assert chosen.default_network_opts == ("bridge=a=b=c", "macvlan=d=")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--bip", "10.1.0.1"),
        ("--bip", "10.1.0.1/33"),
        ("--bip", "10.1.0.1/024x"),
        ("--bip", "fd00::1/64"),
        ("--bip6", "10.1.0.1/16"),
        ("--bip", "10.1.0.300/16"),
        ("--fixed-cidr", "nope"),
        ("--default-gateway", "fd00::1"),
        ("--default-gateway-v6", "fe80::1%eth0"),
        ("--mtu", "-1"),
        ("--mtu", "65536"),
        ("--mtu", "1e3"),
        ("--ip", ""),
        ("--bridge", "a/b"),
        ("--bridge", "sixteen-letters-"),
        ("--dns", "localhost"),
        ("--dns-search", "a b"),
        ("--dns-opt", ""),
        ("--default-address-pool", "10.0.0.0/8"),
        ("--default-address-pool", "base=10.0.0.0/8"),
        ("--default-address-pool", "base=10.0.0.0/8,size=7"),
        ("--default-address-pool", "base=10.0.0.0/8,size=33"),
        ("--default-address-pool", "base=10.0.0.0,size=24"),
        ("--default-network-opt", "bridge"),
        ("--default-network-opt", "bridge=a"),
        ("--host-gateway-ip", "10.0.0.1", "--host-gateway-ip", "10.0.0.2"),
    ],
)
def test_what_is_no_value_of_an_option_is_refused(arguments):
    with pytest.raises(Invalid):
        made(*arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--bridge", "br0", "--bip", "10.1.0.1/16"), "You specified -b & --bip, mutually exclusive options"),
        (("--bridge", "br0", "--bip6", "fd00::1/64"), "You specified -b & --bip6, mutually exclusive options"),
        (("--iptables=false", "--icc=false"), "You specified --iptables=false with --icc=false"),
        (("--ipv6", "--ip6tables=false", "--icc=false"), "You specified --ip6tables=false with --icc=false"),
        (("--bip", "10.1.0.1/16", "--fixed-cidr", "10.2.0.0/24"), "--fixed-cidr 10.2.0.0/24 is not within --bip"),
        (("--bip", "10.1.0.1/24", "--fixed-cidr", "10.1.0.0/16"), "is not within"),
        (("--bip6", "fd00::1/64", "--fixed-cidr-v6", "fd01::/80"), "--fixed-cidr-v6 fd01::/80 is not within"),
        (("--bip", "10.1.0.1/16", "--default-gateway", "10.2.0.1"), "--default-gateway 10.2.0.1/32 is not within"),
    ],
)
def test_options_that_contradict_each_other_are_refused_in_words(arguments, words):
    with pytest.raises(Invalid, match=words):
        made(*arguments)


def test_a_range_alone_is_the_whole_of_the_default_network():
    assert made("--fixed-cidr", "10.5.0.0/24", "--default-gateway", "10.5.0.254").fixed_cidr == "10.5.0.0/24"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.1.0.0/16", "'10.1.0.0/16' is not a valid IPv6 subnet"),
        ("ff05::/64", "multicast subnet 'ff05::/64' is not allowed"),
        ("fe80::/80", "'fe80::/80' clashes with the Link-Local prefix 'fe80::/64'"),
        ("fe80::/10", "'fe80::/10' clashes with the Link-Local prefix 'fe80::/64'"),
        ("fe80::1:0:0:0:0/64", ""),
        ("fe80::/64", ""),
        ("fd00::/64", ""),
        ("2001:db8::/32", ""),
    ],
)
def test_a_range_that_each_link_has_or_many_share_is_refused(text, words):
    """In dockerd's words."""
    if words:
        with pytest.raises(Invalid, match=f"invalid fixed-cidr-v6: {words}$"):
            made("--fixed-cidr-v6", text)
    else:
        assert made("--fixed-cidr-v6", text).fixed_cidr_v6


@pytest.mark.parametrize(
    "document",
    [
        '{"mtu": "1400"}',
        '{"mtu": true}',
        '{"default-address-pools": ["10.0.0.0/8"]}',
        '{"default-address-pools": [{"base": "10.0.0.0/8"}]}',
        '{"default-address-pools": [{"base": "10.0.0.0/8", "size": 24, "more": 1}]}',
        '{"default-network-opts": {"bridge": {"a": 1}}}',
        '{"default-network-opts": ["bridge"]}',
        '{"icc": "yes"}',
    ],
)
def test_a_wrong_value_in_the_file_is_refused(tmp_path, document):
    path = tmp_path / "daemon.json"
    path.write_text(document)
    with pytest.raises(Invalid):
        every.from_arguments(["--config-file", str(path)], {}, 0)


@pytest.mark.parametrize(
    ("text", "wanted"), [("1", (1, 2**32 - 1)), ("0x10/0xf0", (16, 240)), ("7/0", (7, 0)), ("0", (0, 2**32 - 1))]
)
def test_a_firewall_mark_has_a_mask(text, wanted):
    assert network.mark(made("--bridge-accept-fwmark", text).bridge_accept_fwmark) == wanted


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--bridge-accept-fwmark", "x"], 'invalid firewall mark "x"'),
        (["--bridge-accept-fwmark", "1/"], 'invalid firewall mask "1/"'),
        (["--bridge-accept-fwmark", "0x100000000"], "invalid firewall mark"),
        (["--firewall-backend", "ipfw"], 'allowed values are "iptables" and "nftables"'),
        (["--firewall-backend", "iptables"], "nf_tables alone, and does not run iptables"),
    ],
)
def test_what_the_firewall_cannot_be_is_refused(arguments, text):
    with pytest.raises(Invalid, match=text):
        made(*arguments)

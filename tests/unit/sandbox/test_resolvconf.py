"""A container's resolv.conf: the host's lines, each kind replaced by what was asked for, and the resolver's own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.sandbox import resolvconf
from engine.sandbox.resolvconf import AskedNames

HOST = """# by hand
; too
nameserver 127.0.0.1
nameserver 192.0.2.1
nameserver 2001:db8::1
nameserver nonsense
domain old.test
search a.test b.test
options edns0
options timeout:1
sortlist 10.0.0.0/8
"""
STUB = "nameserver 127.0.0.53\nsearch stub.test\n"


def lines(text: str) -> list[str]:
    """What is no comment."""
    return [line for line in text.splitlines() if line and line[0] != "#"]


def nothing() -> str:
    """The file of a host without systemd-resolved."""
    return ""


def test_in_the_host_s_network_it_is_the_host_s_file_unless_something_is_asked_for():
    assert resolvconf.for_host(HOST, AskedNames()) == HOST
    assert lines(resolvconf.for_host(HOST, AskedNames(search=("c.test",)))) == [
        *("nameserver 127.0.0.1", "nameserver 192.0.2.1", "nameserver 2001:db8::1"),
        *("search c.test", "options edns0 timeout:1"),
    ]


def test_in_a_network_of_its_own_servers_of_the_host_s_loopback_are_left_out():
    rest = ["search a.test b.test", "options edns0 timeout:1"]
    assert lines(resolvconf.for_bridge(HOST, nothing, AskedNames())) == ["nameserver 192.0.2.1", *rest]
    with_ipv6 = resolvconf.for_bridge(HOST, nothing, AskedNames(), ipv6=True)
    assert lines(with_ipv6) == ["nameserver 192.0.2.1", "nameserver 2001:db8::1", *rest]


@pytest.mark.parametrize("text", ["", "nameserver 127.0.0.1\n"])
def test_where_no_server_is_left_there_are_two_that_everybody_reaches(text):
    assert lines(resolvconf.for_bridge(text, nothing, AskedNames())) == ["nameserver 8.8.8.8", "nameserver 8.8.4.4"]
    assert len(lines(resolvconf.for_bridge(text, nothing, AskedNames(), ipv6=True))) == 4


def test_behind_systemd_s_stub_are_the_servers_that_a_container_reaches():
    behind = "nameserver 192.0.2.9\nsearch real.test\n"
    assert lines(resolvconf.for_bridge(STUB, lambda: behind, AskedNames())) == [
        "nameserver 192.0.2.9",
        "search real.test",
    ]
    assert lines(resolvconf.for_bridge(STUB, nothing, AskedNames()))[0] == "nameserver 8.8.8.8"


def test_what_is_asked_for_takes_the_place_of_the_host_s_and_a_dot_means_no_domains():
    wishes = AskedNames(("127.0.0.9",), (".",), ("ndots:2",))
    assert lines(resolvconf.for_bridge(HOST, nothing, wishes)) == ["nameserver 127.0.0.9", "options ndots:2"]


def test_with_the_resolver_there_is_one_server_and_every_name_is_asked_as_it_is():
    text = resolvconf.for_resolver(HOST, AskedNames())
    assert lines(text) == ["nameserver 127.0.0.11", "search a.test b.test", "options edns0 timeout:1 ndots:0"]
    assert "# ExtServers: [host(127.0.0.1) host(192.0.2.1) host(2001:db8::1)]\n" in text
    assert "# Overrides: []\n" in text
    text = resolvconf.for_resolver(HOST, AskedNames(("192.0.2.7",), ("c.test",)))
    assert lines(text) == ["nameserver 127.0.0.11", "search c.test", "options edns0 timeout:1 ndots:0"]
    assert "# ExtServers: [192.0.2.7]\n# Overrides: [nameservers search]\n" in text


@pytest.mark.parametrize(
    ("options", "written"),
    [
        (("ndots:2",), "options ndots:2"),
        (("ndots:",), "options ndots:0"),
        (("ndots", "rotate"), "options rotate ndots:0"),
        (("ndots:-1",), "options ndots:0"),
        (("ndots:٣",), "options ndots:0"),
        (("ndots:" + "9" * 10000,), "options ndots:" + "9" * 10000),
    ],
)
def test_a_number_of_dots_that_is_one_is_kept(options, written):
    assert lines(resolvconf.for_resolver("", AskedNames(options=options))) == ["nameserver 127.0.0.11", written]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("", (), False),
        ("options ndots:1\n", (), True),
        ("options ndots:1\n", ("rotate",), False),
        ("", ("ndots:0",), False),
        ("", ("ndots:15",), True),
    ],
)
def test_names_of_one_label_are_for_the_search_list_where_somebody_has_said_so(text, options, expected):
    assert resolvconf.dotted(text, AskedNames(options=options)) is expected


def test_the_daemon_s_wishes_stand_where_a_container_has_none():
    of_daemon = AskedNames(("192.0.2.1",), ("a.test",), ("rotate",))
    own = ["192.0.2.2"], [], None
    assert resolvconf.asked(*own, of_daemon) == AskedNames(("192.0.2.2",), ("a.test",), ("rotate",))
    assert resolvconf.asked(*own, AskedNames()) == AskedNames(("192.0.2.2",), (), ())


@given(st.text())
def test_any_text_of_a_host_makes_a_file(text):
    for made in (resolvconf.for_resolver(text, AskedNames()), resolvconf.for_bridge(text, nothing, AskedNames())):
        assert "nameserver" in made
    for server in resolvconf.nameservers(text):
        assert server

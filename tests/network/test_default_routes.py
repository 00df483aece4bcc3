"""The default routes of containers: which network they lead to, and what happens where one cannot be set."""

import os
import subprocess

import pytest

from engine.daemon.network.record import Pool
from engine.daemon.network.wiring import Wiring
from engine.dataclass import replace
from engine.errors import SystemFailure
from engine.kernel import netns
from tests.network.test_wiring import NETWORK, PLAIN, SECOND, defaults, endpoint, links_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_the_default_route_is_that_of_the_highest_priority_then_of_the_name(ours: None, inside: list[int]) -> None:
    """Of all networks of a container; it moves when one is connected or disconnected."""
    wiring = Wiring()
    for network in (PLAIN, SECOND):
        wiring.ensure(network)
    first, second = endpoint(2, PLAIN), endpoint(3, SECOND, interface="eth1")
    wiring.plug([(PLAIN, first), (SECOND, second)], inside[0])
    assert defaults(inside[0]) == {False: "10.8.0.1"}  # alpha comes before plain
    wiring.unplug(SECOND, second, inside[0], [(PLAIN, first)])
    assert defaults(inside[0]) == {False: "10.9.0.1"}
    assert set(links_of(inside[0])) == {"lo", "eth0"}
    low = replace(second, priority=-1)
    wiring.plug([(SECOND, low)], inside[0], [(PLAIN, first)])
    assert defaults(inside[0]) == {False: "10.9.0.1"}
    wiring.unplug(SECOND, low, inside[0], [(PLAIN, first)])
    wiring.plug([(SECOND, replace(second, priority=7))], inside[0], [(PLAIN, first)])
    assert defaults(inside[0]) == {False: "10.8.0.1"}


def test_a_default_route_that_cannot_move_keeps_no_interface(
    ours: None, inside: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    """The container has made the other network unreachable itself."""
    wiring = Wiring()
    for network in (PLAIN, SECOND):
        wiring.ensure(network)
    first, second = endpoint(2, PLAIN), endpoint(3, SECOND, interface="eth1")
    wiring.plug([(PLAIN, first), (SECOND, second)], inside[0])
    with netns.entered(inside[0]):
        subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
    wiring.unplug(SECOND, second, inside[0], [(PLAIN, first)])
    assert set(links_of(inside[0])) == {"lo", "eth0"} and defaults(inside[0]) == {}
    assert f"the default route of container {first.container} could not be moved" in caplog.text
    wiring.plug([(SECOND, second)], inside[0], [(PLAIN, first)])
    assert defaults(inside[0]) == {False: "10.8.0.1"}


def test_a_default_route_of_the_containers_own_keeps_another_out(ours: None, inside: list[int]) -> None:
    """A connect fails then, and nothing of it is left: neither the interface nor what had moved."""
    closed = replace(PLAIN, internal=True)
    wiring = Wiring()
    for network in (closed, SECOND):
        wiring.ensure(network)
    first = endpoint(2, closed)
    wiring.plug([(closed, first)], inside[0])
    with netns.entered(inside[0]):
        subprocess.run(["ip", "route", "add", "default", "via", "10.9.0.1"], check=True)
    with pytest.raises(SystemFailure, match=r"^failed to set gateway: file exists$"):
        wiring.plug([(SECOND, endpoint(3, SECOND))], inside[0], [(closed, first)])
    assert set(links_of(inside[0])) == {"lo", "eth0"} and defaults(inside[0]) == {False: "10.9.0.1"}
    with netns.entered(inside[0]):
        subprocess.run(["ip", "route", "delete", "default"], check=True)
    wiring.plug([(SECOND, endpoint(3, SECOND))], inside[0], [(closed, first)])
    assert defaults(inside[0]) == {False: "10.8.0.1"}


def test_a_connect_that_fails_leaves_the_default_route_where_it_was(ours: None, inside: list[int]) -> None:
    """That of IPv4 has moved already when that of IPv6 is refused."""
    wiring = Wiring()
    both = replace(NETWORK, pools=(Pool("10.7.0.0/24", gateway="10.7.0.1"), NETWORK.pools[1]))
    for network in (PLAIN, both):
        wiring.ensure(network)
    first = endpoint(2, PLAIN)
    wiring.plug([(PLAIN, first)], inside[0])
    with netns.entered(inside[0]):
        own = ["default", "dev", "lo", "metric", "1024"]
        subprocess.run(["ip", "-6", "route", "add", *own], check=True)
    try:
        with pytest.raises(SystemFailure, match=r"^failed to set gateway: file exists$"):
            wiring.plug([(both, endpoint(3, both, priority=9))], inside[0], [(PLAIN, first)])
        assert set(links_of(inside[0])) == {"lo", "eth0"} and defaults(inside[0])[False] == "10.9.0.1"
    finally:
        with netns.entered(inside[0]):  # other tests use this network, too
            subprocess.run(["ip", "-6", "route", "delete", *own], check=True)


def test_an_internal_network_has_no_way_out(ours: None, inside: list[int]) -> None:
    """No default route leads into it, whatever its priority."""
    wiring = Wiring()
    internal = replace(PLAIN, internal=True)
    wiring.ensure(internal)
    wiring.plug([(internal, endpoint(2, internal, priority=9))], inside[0])
    assert defaults(inside[0]) == {}

"""Published ports that the userland proxy carries, by traffic: what no rule can lead to a container."""

from collections.abc import Iterator

import pytest

from tests.harness.daemon import Daemon
from tests.harness.hosts import Host, ask, serving
from tests.network.places import Place, container


@pytest.fixture(scope="module")
def web(apart: Daemon) -> Iterator[Place]:
    """A container with an IPv4 address alone that answers at 8080 of the host, by TCP and by UDP."""
    with container(apart, ports=["8080:80", "8080:80/udp"]) as place:
        with serving(place, 80), serving(place, 80, "udp"):
            yield place


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_container_with_ipv4_alone_is_reached_over_ipv6(apart: Daemon, outside: Host, web: Place, kind: str) -> None:
    """By the host itself at ::1 and at its other addresses, and from outside; the container sees the bridge."""
    assert {each["HostIp"] for each in web.ports[f"80/{kind}"]} == {"0.0.0.0", "::"}
    assert ask(apart.namespaces, "::1", 8080, kind) == web.gateway
    assert ask(apart.namespaces, outside.gateway6, 8080, kind) == web.gateway
    assert ask(outside, outside.gateway6, 8080, kind) == web.gateway

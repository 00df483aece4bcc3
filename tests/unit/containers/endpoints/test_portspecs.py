"""What is asked of the host for a container's ports."""

import pytest

from engine.daemon.containers.endpoints.portspecs import requests
from engine.daemon.containers.record import Container
from engine.daemon.network.record import PortRequest
from engine.errors import Invalid
from tests.harness import parts


def container(bindings: dict | None = None, exposed: dict | None = None, publish_all: bool = False) -> Container:
    """A container with these ports."""
    host_config = {"PortBindings": bindings or {}, "PublishAllPorts": publish_all}
    return parts.container({"ExposedPorts": exposed}, host_config)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ({"HostPort": "8080"}, PortRequest(80, "tcp", "", 8080, 8080)),
        ({"HostPort": "8080/tcp"}, PortRequest(80, "tcp", "", 8080, 8080)),
        ({"HostPort": "8080-8083"}, PortRequest(80, "tcp", "", 8080, 8083)),
        ({"HostPort": ""}, PortRequest(80, "tcp", "", 0, 0)),
        ({"HostPort": None, "HostIp": "127.0.0.1"}, PortRequest(80, "tcp", "127.0.0.1", 0, 0)),
        ({"HostPort": "0"}, PortRequest(80, "tcp", "", 0, 0)),
        ({}, PortRequest(80, "tcp", "", 0, 0)),
        (None, PortRequest(80, "tcp", "", 0, 0)),
    ],
)
def test_a_binding_is_a_port_a_range_or_any_port(host, expected):
    assert requests(container({"80/tcp": [host]})) == [expected]


def test_ports_that_are_named_come_before_those_that_may_be_any():
    """Docker's order: exact ports, then ranges and any; by the container's port, protocol, host's port and address."""
    at80 = [
        {},
        {"HostPort": "10-20"},
        *({"HostIp": each, "HostPort": "8"} for each in ("::", "127.0.0.2", "127.0.0.1")),
    ]
    bindings = {"53/udp": [{"HostPort": ""}], "90/tcp": [{"HostPort": "9"}], "80/tcp": at80, "80/udp": at80[-1:]}
    found = [(each.container_port, each.protocol, each.first, each.host_ip) for each in requests(container(bindings))]
    assert found == [
        (80, "tcp", 8, "127.0.0.1"),
        (80, "tcp", 8, "127.0.0.2"),
        (80, "tcp", 8, "::"),
        (80, "udp", 8, "127.0.0.1"),
        (90, "tcp", 9, ""),
        (53, "udp", 0, ""),
        (80, "tcp", 0, ""),
        (80, "tcp", 10, ""),
    ]


def test_all_that_is_exposed_and_has_no_port_gets_one_where_all_are_published():
    exposed = {"80/tcp": {}, "7000-7001/udp": {}, "81/tcp": {}}
    bindings = {"81/tcp": [{"HostPort": "81"}]}
    assert requests(container(bindings, exposed, publish_all=True)) == [
        PortRequest(81, "tcp", "", 81, 81),
        PortRequest(80, "tcp"),
        PortRequest(7000, "udp"),
        PortRequest(7001, "udp"),
    ]
    assert requests(container(bindings, exposed)) == [PortRequest(81, "tcp", "", 81, 81)]


def test_an_empty_list_in_a_record_of_an_earlier_release_is_one_binding():
    """As dockerd reads its records; create makes one of null too."""
    assert requests(container({"80/tcp": [], "81/tcp": None}, {"82/tcp": {}})) == [PortRequest(80, "tcp")]


def test_only_three_protocols_have_ports():
    assert [each.protocol for each in requests(container({"80/sctp": [{}], "80/udp": [{}]}))] == ["udp", "sctp"]
    with pytest.raises(Invalid, match="invalid transport protocol: foo"):
        requests(container({"80/foo": [{"HostPort": "1"}]}))

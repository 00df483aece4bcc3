"""Containers that stand in networks of a daemon, and their networks, for tests of what reaches what.

Run by the test process. What listens and what asks in them are sockets of the test's own (see `tests.harness.hosts`),
so a container only has to be there.
"""

import contextlib
from collections.abc import Iterator, Sequence

from tests.harness.daemon import Daemon
from tests.harness.hosts import Inside

BRIDGE = "com.docker.network.bridge."


class Place(Inside):
    """A running container: its id, and its addresses in the network that it was started in."""

    def __init__(self, daemon: Daemon, container: str, network: str) -> None:
        shown = daemon.inspect(container)
        super().__init__(shown["State"]["Pid"])
        self.id = container
        self.ports: dict = shown["NetworkSettings"]["Ports"]
        settings = shown["NetworkSettings"]["Networks"][network]
        self.address: str = settings["IPAddress"]
        self.address6: str = settings["GlobalIPv6Address"]
        self.gateway: str = settings["Gateway"]

    def port(self, number: int, protocol: str = "tcp") -> int:
        """The host's port that leads to this one."""
        return int(self.ports[f"{number}/{protocol}"][0]["HostPort"])


def bindings(*ports: str) -> dict:
    """PortBindings of ports as docker's -p has them: `8080:80/udp`, `127.0.0.1:8080:80`, `[::1]::80`, `80`."""
    found: dict[str, list[dict]] = {}
    for port in ports:
        outside, _, inside = port.rpartition(":")
        address, colon, number = outside.rpartition(":") if outside else ("", "", "")
        inside = inside if "/" in inside else inside + "/tcp"
        found.setdefault(inside, []).append({"HostIp": address.strip("[]") if colon else "", "HostPort": number})
    return found


@contextlib.contextmanager
def network(daemon: Daemon, name: str, **body: object) -> Iterator[str]:
    """A network of the daemon, taken away at the end of a `with`; its id."""
    answer = daemon.request("POST", "/networks/create", {"Name": name, **body})
    assert answer.status == 201, answer
    try:
        yield answer.json()["Id"]
    finally:
        assert daemon.request("DELETE", f"/networks/{name}").status == 204


@contextlib.contextmanager
def container(
    daemon: Daemon, network: str = "bridge", ports: Sequence[str] = (), **host_config: object
) -> Iterator[Place]:
    """A container that only is there, in this network and with these ports published."""
    given = {"NetworkMode": network, "PortBindings": bindings(*ports), **host_config}
    identifier = daemon.create("sleep", "600", HostConfig=given)
    try:
        daemon.begin(identifier)
        yield Place(daemon, identifier, network)
    finally:
        daemon.remove(identifier)


def pool(subnet: str, **more: object) -> dict:
    """An IPAM with this subnet."""
    return {"Driver": "default", "Config": [{"Subnet": subnet, **more}]}

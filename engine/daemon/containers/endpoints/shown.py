"""Show a container's networks in inspect and the listing: the settings asked for, and its endpoints while it runs.

Runs in the daemon's request threads. The dicts of the record are shown as they are where nothing is to be added.
"""

from engine.daemon.containers import ports
from engine.daemon.containers.record import Container, State
from engine.daemon.jsontext import Object
from engine.daemon.network.record import BUILTIN, Endpoint
from engine.daemon.parts import EndpointParts
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for networks of users, and for containers that run
    from engine.daemon.containers.endpoints import requested
    from engine.daemon.containers.shapes import EndpointSettings
    from engine.daemon.images import content
else:
    requested = late("engine.daemon.containers.endpoints.requested")
    content = late("engine.daemon.images.content")


def endpoints_of(engine: EndpointParts, container: Container, state: State) -> list[Endpoint]:
    """The endpoints of a container that runs; empty for any other, though its end may still be under way."""
    return engine.networks.endpoints(container_id=container.id) if state.alive else []


def settings(container: Container, state: State, endpoints: list[Endpoint]) -> Object:
    """The NetworkSettings of an inspect. endpoints: those that `endpoints_of` has found"""
    its_own = state.alive and not container.host_config["NetworkMode"].startswith("container:")
    return {
        "SandboxID": _sandbox(container, state) if its_own else "",
        # This path leads to the network namespace, as docker's does, without a mount on the host.
        "SandboxKey": f"/proc/{state.pid}/ns/net" if its_own else "",
        "Ports": ports.port_map(ports.open_ports(container, endpoints)),
        "Networks": networks(container, state, endpoints),
    }


def networks(container: Container, state: State, endpoints: list[Endpoint]) -> "dict[str, EndpointSettings]":
    """Name of each network → EndpointSettings."""
    if not state.started_ns:
        # The first start binds the container to networks by their ids, and docker shows no ids before it. Until then it
        # shows names only where a connect has given them.
        return {name: {**asked, "NetworkID": ""} for name, asked in container.networking.items()}
    by_network = {endpoint.network: endpoint for endpoint in endpoints}
    its_own = {name: _with_names(container, name, asked) for name, asked in container.networking.items()}
    return {name: _connected(asked, by_network) for name, asked in its_own.items()}


def listed(container: Container, state: State, endpoints: list[Endpoint]) -> "dict[str, EndpointSettings]":
    """The networks as a listing shows them: dockerd's has of the settings the addresses and the priority alone."""
    return {name: _listed(each) for name, each in networks(container, state, endpoints).items()}


def _listed(shown: "EndpointSettings") -> "EndpointSettings":
    ipam = shown["IPAMConfig"]
    if ipam is not None:
        ipam = {**ipam}
        ipam.pop("LinkLocalIPs", None)
    return {**shown, "IPAMConfig": ipam, "Links": None, "Aliases": None, "DriverOpts": None, "DNSNames": None}


def _with_names(container: Container, name: str, asked: "EndpointSettings") -> "EndpointSettings":
    """The settings with the names that the container has, or would have, in a user-defined network."""
    return asked if name in BUILTIN else {**asked, "DNSNames": requested.dns_names(container, asked)}


def _connected(asked: "EndpointSettings", endpoints: dict[str, Endpoint]) -> "EndpointSettings":
    endpoint = endpoints.get(asked["NetworkID"])
    if endpoint is None:  # the end of a run takes away the MAC address, also one that was asked for
        return {**asked, "MacAddress": ""}
    return {
        **asked,
        "EndpointID": endpoint.id,
        "Gateway": endpoint.gateway4,
        "IPAddress": endpoint.ipv4,
        "MacAddress": endpoint.mac,
        "IPPrefixLen": endpoint.prefix4,
        "IPv6Gateway": endpoint.gateway6,
        "GlobalIPv6Address": endpoint.ipv6,
        "GlobalIPv6PrefixLen": endpoint.prefix6,
        "DNSNames": list(endpoint.names) or None,
    }


def _sandbox(container: Container, state: State) -> str:
    """64 hex digits for this run, the same in every daemon that adopts it."""
    return content.digest_of(f"{container.id} {state.pid} {state.pid_start}".encode()).removeprefix("sha256:")

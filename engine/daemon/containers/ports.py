"""The ports that a container exposes and the host's ports that lead to them, as inspect and the listing show them.

Pure; runs in the daemon's request threads.
"""

from collections.abc import Iterable

from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import Config
from engine.daemon.jsontext import Object
from engine.daemon.network.record import Endpoint, Published
from engine.literals import LAST_PORT, span


def exposed_ports(container: Container) -> list[tuple[int, str]]:
    """(number, protocol) of ExposedPorts, in order; a range such as `8000-8010/tcp` stands for each of its ports."""
    found: set[tuple[int, str]] = set()
    for port in container.config["ExposedPorts"] or ():
        numbers, _, protocol = port.partition("/")
        # Only an image's config can have a text here that is no port, and nothing can ever be reached there.
        if (ends := span(numbers, LAST_PORT)) is not None:
            found.update((number, protocol or "tcp") for number in range(ends[0], ends[1] + 1))
    return sorted(found)


def with_protocols(config: Config) -> Config:
    """The Config with ExposedPorts such as `80/tcp`; a client of the API before 1.52 may have given `80` alone."""
    exposed = config["ExposedPorts"]
    if not exposed or all("/" in port for port in exposed):
        return config
    return {**config, "ExposedPorts": {port if "/" in port else f"{port}/tcp": {} for port in exposed}}


def open_ports(container: Container, endpoints: Iterable[Endpoint]) -> dict[tuple[int, str], list[Published]]:
    """(number, protocol) → its published ports, for a container that runs; empty for one without an interface."""
    endpoints = [endpoint for endpoint in endpoints if endpoint.interface]
    if not endpoints:
        return {}
    found: dict[tuple[int, str], list[Published]] = {port: [] for port in exposed_ports(container)}
    for endpoint in _ordered(container, [endpoint for endpoint in endpoints if endpoint.ports]):
        for each in endpoint.ports:
            found.setdefault((each.container_port, each.protocol), []).append(each)
    return found


def _ordered(container: Container, endpoints: list[Endpoint]) -> list[Endpoint]:
    """Endpoints of bridges that lead out, in docker's order (see `gateways`)."""
    if len(endpoints) < 2:
        return endpoints
    names = {settings["NetworkID"]: name for name, settings in container.networking.items()}
    return sorted(
        endpoints, key=lambda each: (-each.priority, not (each.gateway4 and each.gateway6), names.get(each.network, ""))
    )


def port_map(opened: dict[tuple[int, str], list[Published]]) -> dict[str, list[Object] | None]:
    """A PortMap of the API, as inspect has it."""
    return {
        f"{number}/{protocol}": [{"HostIp": each.host_ip, "HostPort": str(each.host_port or "")} for each in found]
        or None
        for (number, protocol), found in opened.items()
    }


def summaries(opened: dict[tuple[int, str], list[Published]]) -> list[Object]:
    """The PortSummary of each port, as the listing has them."""
    shown = []
    for (number, protocol), published in opened.items():
        if not published:
            shown.append({"PrivatePort": number, "Type": protocol})
        for each in published:
            public: Object = {"PrivatePort": number, "Type": protocol}
            if each.host_port:  # else the network routes, and the port is open at the container's own address
                public["PublicPort"] = each.host_port
            shown.append({"IP": each.host_ip, **public} if each.host_ip else public)
    return shown

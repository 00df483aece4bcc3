"""Turn the ports of a container's HostConfig and Config into requests for host ports, at each start.

Pure; runs in the daemon's threads. Create has already refused what can be seen to be wrong in the values alone.
"""

from engine.annotating import Any
from engine.daemon.containers.ports import exposed_ports
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import PortBinding
from engine.daemon.network.record import PortRequest
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.literals import LAST_PORT, natural, span

if TYPE_CHECKING:  # loaded with the first port
    from engine.daemon.network import publishing
else:
    publishing = late("engine.daemon.network.publishing")

_PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}
_ANY: PortBinding = {"HostIp": "", "HostPort": ""}


def requests(container: Container) -> list[PortRequest]:
    """Every port that is to be published, in docker's order: those whose host port the engine chooses come last.

    They take what is left. Raises Invalid for a protocol that has no ports.
    """
    bindings = container.host_config["PortBindings"]
    # An empty list is that of an earlier release; `config` has made one binding of it since.
    given = ((port, [_ANY] if hosts == [] else hosts or ()) for port, hosts in bindings.items())
    asked = [_of(port, host or _ANY) for port, hosts in given for host in hosts]
    if container.host_config["PublishAllPorts"]:
        bound = {(request.container_port, request.protocol) for request in asked}
        asked += [PortRequest(*port) for port in exposed_ports(container) if port not in bound]
    for request in asked:
        if request.protocol not in _PROTOCOLS:
            raise Invalid(f"invalid transport protocol: {request.protocol}")
    return sorted(asked, key=_order)


def told(container: Container, *, published: bool = False) -> dict[str, Any]:
    """What a driver that is a plugin is told of the ports, as dockerd tells it. published: of no others"""
    asked = requests(container)
    ports = dict.fromkeys((request.container_port, request.protocol) for request in asked)
    ports |= {} if published else dict.fromkeys(exposed_ports(container))
    bindings = [
        {
            "Proto": _PROTOCOLS[request.protocol],
            "IP": "",
            "Port": request.container_port,
            "HostIP": request.host_ip,
            "HostPort": request.first,
            "HostPortEnd": request.last,
        }
        for request in asked
    ]
    exposed = [{"Proto": _PROTOCOLS[protocol], "Port": port} for port, protocol in ports if protocol in _PROTOCOLS]
    return {"com.docker.network.endpoint.exposedports": exposed, "com.docker.network.portmap": bindings}


def _order(request: PortRequest) -> tuple[bool, int, int, int, int, tuple[int, int]]:
    chosen = not request.first or request.first != request.last
    kind = _PROTOCOLS[request.protocol]
    return chosen, request.container_port, kind, request.first, request.last, publishing.order_of(request.host_ip)


def _of(port: str, host: PortBinding) -> PortRequest:
    number, _, protocol = port.partition("/")
    ends = span((host.get("HostPort") or "0").partition("/")[0], LAST_PORT)
    container_port = natural(number, LAST_PORT)
    if ends is None or container_port is None:
        raise Invalid(f'invalid port specification: "{port}"')
    return PortRequest(container_port, protocol or "tcp", host.get("HostIp") or "", *ends)

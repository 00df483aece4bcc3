"""Parses what `-p`, `--expose`, `--dns` and `--network` say, in docker's words where it is wrong.

Pure: texts in, the fields of POST /containers/create out.
"""

import socket
from collections.abc import Sequence

from engine.client.transport import Object
from engine.errors import Invalid
from engine.literals import LAST_PORT, span

_PROTOCOLS = ("tcp", "udp", "sctp")
_LONG = {"target", "published", "protocol", "mode", "host_ip"}


def address(text: str) -> str:
    """Checks an IP address. Raises Invalid."""
    if not _is_address(text):
        raise Invalid(f"IP address is not correctly formatted: {text}")
    return text


def published(texts: Sequence[str]) -> tuple[Object, Object]:
    """`-p` texts as (ExposedPorts, HostConfig.PortBindings). Raises Invalid."""
    exposed: Object = {}
    bindings: Object = {}
    for text in texts:
        for port, host, outer in _mappings(_short(text)):
            exposed[port] = {}
            bindings.setdefault(port, []).append({"HostIp": host, "HostPort": outer})
    return exposed, bindings


def exposed(texts: Sequence[str]) -> Object:
    """`--expose` texts as ExposedPorts. Raises Invalid."""
    found: Object = {}
    for text in texts:
        ports, _, protocol = text.partition("/")
        ends = span(ports, LAST_PORT)
        if ends is None:
            raise Invalid(f"invalid range format for --expose: {text}")
        found |= {f"{port}/{protocol or 'tcp'}": {} for port in range(ends[0], ends[1] + 1)}
    return found


def _short(text: str) -> str:
    """`target=80,published=8080,protocol=tcp` as the short form; the short form as it is."""
    if "=" not in text:
        return text
    fields = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or name not in _LONG:
            raise Invalid(f"invalid publish opts format (should be name=value but got '{part}')")
        fields[name] = value
    host = f"{fields['host_ip']}:" if "host_ip" in fields else ""
    return f"{host}{fields.get('published', '')}:{fields.get('target', '')}/{fields.get('protocol', 'tcp')}"


def _mappings(text: str) -> list[tuple[str, str, str]]:
    """(container's port with its protocol, host's address, host's port) for each port of one `-p`."""
    place, _, protocol = text.partition("/")
    rest, _, inner = place.rpartition(":")
    host, _, outer = rest.rpartition(":")
    if not inner:
        raise Invalid(f"no port specified: {text}<empty>")
    plain = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if plain and not _is_address(plain):
        raise Invalid(f"invalid IP address: {plain}")
    inside = span(inner, LAST_PORT)
    if inside is None:
        raise Invalid(f"invalid containerPort: {inner}")
    outside = span(outer, LAST_PORT) if outer else None
    if outer and outside is None:
        raise Invalid(f"invalid hostPort: {outer}")
    kind = (protocol or "tcp").lower()
    if kind not in _PROTOCOLS:
        raise Invalid(f"invalid proto: {protocol}")
    count = inside[1] - inside[0]
    if outside is not None and outside[1] - outside[0] != count:
        if count:
            raise Invalid(f"invalid ranges specified for container and host Ports: {inner} and {outer}")
        return [(f"{inside[0]}/{kind}", plain, f"{outside[0]}-{outside[1]}")]  # the daemon chooses one of these
    return [
        (f"{inside[0] + at}/{kind}", plain, str(outside[0] + at) if outside is not None else "")
        for at in range(count + 1)
    ]


def _is_address(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
            return True
        except OSError:
            continue
    return False


def network_checked(text: str) -> str:
    """Checks one `--network`. Raises Invalid."""
    network(text)
    return text


def network(text: str) -> tuple[str, Object]:
    """One `--network`: `NAME` or `name=NAME,alias=A,ip=1.2.3.4,...`, as (name, EndpointSettings). Raises Invalid."""
    if "=" not in text and "," not in text:
        return text, {}
    name = ""
    endpoint: Object = {}
    addresses: Object = {}
    for part in text.split(","):
        key, separator, value = (one.strip() for one in part.partition("="))
        if not separator:
            raise Invalid(f"invalid field {part}")
        if key == "name":
            name = value
        elif key == "alias":
            endpoint.setdefault("Aliases", []).append(value)
        elif key in _ADDRESSES:
            addresses[_ADDRESSES[key]] = [*addresses.get(_ADDRESSES[key], ()), value] if key == _MANY else value
        elif key == "mac-address":
            endpoint["MacAddress"] = value
        elif key == "driver-opt":
            option, _, setting = value.partition("=")
            endpoint.setdefault("DriverOpts", {})[option] = setting
        else:
            raise Invalid(f"invalid field key {key}")
    if addresses:
        endpoint["IPAMConfig"] = addresses
    return name, endpoint


_MANY = "link-local-ip"
_ADDRESSES = {"ip": "IPv4Address", "ip6": "IPv6Address", _MANY: "LinkLocalIPs"}

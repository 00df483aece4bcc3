"""Shows the ports of a container as `docker ps` does: neighbours together, as a range.

Pure.
"""

from collections.abc import Iterable

from engine.client.transport import Object


def shown_ports(ports: Iterable[Object]) -> str:
    """`0.0.0.0:80-82->80-82/tcp, 443/tcp`, of the ports of GET /containers/json."""
    groups: dict[tuple[str, str], list[int]] = {}
    done: list[str] = []
    mapped: list[str] = []
    for port in sorted(ports, key=_order):
        inner, outer, host, kind = port["PrivatePort"], port.get("PublicPort", 0), port.get("IP", ""), port["Type"]
        if host and outer != inner:
            mapped.append(f"{place(host, str(outer))}->{inner}/{kind}")
            continue
        ends = groups.setdefault((host, kind), [inner, inner])
        if inner == ends[1] + 1:
            ends[1] = inner
        elif inner != ends[1]:
            done.append(_group(host, kind, *ends))
            groups[host, kind] = [inner, inner]
    done += [_group(host, kind, *ends) for (host, kind), ends in groups.items()]
    return ", ".join(done + mapped)


def place(host: str, port: str) -> str:
    """An address and a port; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _order(port: Object) -> tuple[int, str, int, str]:
    return port["PrivatePort"], port.get("IP", ""), port.get("PublicPort", 0), port["Type"]


def _group(host: str, kind: str, first: int, last: int) -> str:
    ports = str(first) if first == last else f"{first}-{last}"
    return f"{place(host, ports)}->{ports}/{kind}" if host else f"{ports}/{kind}"

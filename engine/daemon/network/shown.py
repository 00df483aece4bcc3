"""The JSON of a network and of its containers that the API shows (NetworkInspect).

Runs in the daemon's request threads; it changes nothing. Keys and their order are dockerd's.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from engine.daemon.clock import rfc3339
from engine.daemon.network.record import Endpoint, Network, Pool


def inspect(
    network: Network,
    endpoints: Iterable[Endpoint],
    status: Mapping[str, Mapping[str, int]] | None,
    name_of: Callable[[str], str],
) -> dict[str, Any]:
    """A NetworkInspect of the API.

    status: subnet → SubnetStatus, None in a list; name_of: id of a container → its name
    """
    shown: dict[str, Any] = {
        "Name": network.name,
        "Id": network.id,
        "Created": rfc3339(network.created_ns),
        "Scope": network.scope,
        "Driver": network.driver,
        "EnableIPv4": network.ipv4,
        "EnableIPv6": network.ipv6,
        "IPAM": {
            "Driver": network.ipam_driver,
            "Options": network.ipam_options,
            "Config": None if network.config_only else [_show_pool(pool) for pool in network.pools] or None,
        },
        "Internal": network.internal,
        "Attachable": network.attachable,
        "Ingress": network.ingress,
        "ConfigFrom": {"Network": network.config_from},
        "ConfigOnly": network.config_only,
        "Options": network.options,
        "Labels": network.labels,
        "Containers": {
            endpoint.container: {
                "Name": name_of(endpoint.container),
                "EndpointID": endpoint.id,
                "MacAddress": endpoint.mac,
                "IPv4Address": f"{endpoint.ipv4}/{endpoint.prefix4}" if endpoint.ipv4 else "",
                "IPv6Address": f"{endpoint.ipv6}/{endpoint.prefix6}" if endpoint.ipv6 else "",
            }
            for endpoint in endpoints
        },
    }
    if status is not None:
        shown["Status"] = {"IPAM": {"Subnets": dict(status)} if status else {}}
    return shown


def _show_pool(pool: Pool) -> dict[str, str | dict[str, str]]:
    values: dict[str, str | dict[str, str]] = {
        "Subnet": pool.subnet,
        "IPRange": pool.ip_range,
        "Gateway": pool.gateway,
        "AuxiliaryAddresses": pool.aux,
    }
    return {key: value for key, value in values.items() if value}

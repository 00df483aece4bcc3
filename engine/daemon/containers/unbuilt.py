"""What dockerd has for a container and this engine does not have yet: refused in words, never silently ignored.

One table a part of the request: a key that stands in none of them is obeyed. A row is taken out when its part is built.
Pure; runs in the daemon's request threads, after everything that is wrong in itself has been refused.
"""

from collections.abc import Callable

from engine.daemon.containers.output import logconfig
from engine.daemon.containers.record import Container
from engine.errors import NotBuilt, NotFound

NETWORK_MODES = frozenset({"bridge", "host", "none"})


def _given(value: object) -> bool:
    return bool(value)


# key → is this value one that asks for something not built?
HOST_CONFIG: dict[str, Callable[[object], bool]] = {
    "Cgroup": _given,
    "Links": _given,
    "PublishAllPorts": _given,
}
# Settings of an endpoint; what an engine fills in itself (addresses, ids) is ignored here as dockerd ignores it.
ENDPOINT: dict[str, Callable[[object], bool]] = {
    "IPAMConfig": lambda ipam: bool(ipam) and any(ipam.values()),
    "Links": _given,
    "Aliases": _given,
    "DriverOpts": _given,
    "GwPriority": _given,
    "MacAddress": _given,
}


def refuse(host_config: dict, networking: dict) -> None:
    """Raise NotBuilt, naming the field, for the first thing asked that this engine does not have yet.

    Both are complete (see `config`).
    """
    for key, asks in HOST_CONFIG.items():
        if asks(host_config[key]):
            raise NotBuilt(f"HostConfig.{key} is not built yet in this engine")
    # With the host's network there is nothing to publish: dockerd warns and goes on, and so does this engine.
    if host_config["PortBindings"] and host_config["NetworkMode"] != "host":
        raise NotBuilt("HostConfig.PortBindings is not built yet in this engine")
    if "host-gateway" in (entry.partition(":")[2] for entry in host_config["ExtraHosts"] or ()):
        raise NotBuilt("HostConfig.ExtraHosts: host-gateway is not built yet in this engine")
    logconfig.refuse_what_is_not_built(host_config["LogConfig"])
    _refuse_networking(networking)


def _refuse_networking(networking: dict) -> None:
    if len(networking) > 1:
        raise NotBuilt("NetworkingConfig.EndpointsConfig: more than one network is not built yet in this engine")
    for name, endpoint in networking.items():
        for key, asks in ENDPOINT.items():
            if asks(endpoint[key]):
                raise NotBuilt(f"NetworkingConfig.EndpointsConfig.{name}.{key} is not built yet in this engine")


def check_network(engine: object, container: Container) -> None:
    """At start: raise NotFound for a network by name that create let pass, as dockerd does, and that is not there."""
    mode = container.host_config["NetworkMode"]
    if mode not in NETWORK_MODES and not mode.startswith("container:"):
        raise NotFound(f"failed to set up container networking: network {mode} not found")

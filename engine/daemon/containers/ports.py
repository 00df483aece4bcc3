"""The ports a container exposes, as inspect and the listing show them.

Pure; runs in the daemon's request threads. Nothing is published before the network issue, so no port has a binding.
"""

from engine.daemon.containers.record import Container, State

_LAST = 65535


def exposed_ports(container: Container) -> list[tuple[int, str]]:
    """(number, protocol) of ExposedPorts, in order; a range such as `8000-8010/tcp` stands for each of its ports."""
    found = set()
    for port in container.config["ExposedPorts"] or ():
        numbers, _, protocol = port.partition("/")
        first, dash, last = numbers.partition("-")
        try:
            low, high = int(first), int(last if dash else first)
        except ValueError:
            # Only an image's config can say such a thing, and nothing can ever be reached there.
            continue
        found.update((number, protocol or "tcp") for number in range(max(low, 0), min(high, _LAST) + 1))
    return sorted(found)


def open_ports(container: Container, state: State) -> list[tuple[int, str]]:
    """Those of a container that runs in a network of its own; as dockerd, none of any other."""
    if not state.running or container.host_config["NetworkMode"] in ("host", "none"):
        return []
    return exposed_ports(container)

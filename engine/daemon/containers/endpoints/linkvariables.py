"""The environment variables by which a container once learned of the containers that its HostConfig links to.

docker has given them up, unless its daemon has DOCKER_KEEP_DEPRECATED_LEGACY_LINKS_ENV_VARS=1 in its own environment.
Runs in the daemon's threads, at a start and at an adoption; loaded with the first container that has a link.
"""

import os
from collections.abc import Iterable, Iterator

from engine.daemon.containers.endpoints import legacylinks
from engine.daemon.containers.ports import exposed_ports
from engine.daemon.containers.record import Container
from engine.daemon.network.record import DEFAULT
from engine.daemon.parts import EndpointParts

ASKED = "DOCKER_KEEP_DEPRECATED_LEGACY_LINKS_ENV_VARS"

# What the image of most containers sets, and says nothing of the linked container.
_NOT_TOLD = frozenset({"HOME", "PATH"})


def variables(engine: EndpointParts, container: Container) -> tuple[str, ...]:
    """`NAME=value` of all links to containers that are in the default network now; none unless the daemon is asked."""
    if os.environ.get(ASKED) != "1" or DEFAULT not in container.networking:
        return ()
    found: list[str] = []
    for alias, other, endpoint in legacylinks.running(engine, container):
        name = f"/{container.name}/{alias}"
        found += of_link(name, endpoint.ipv4, exposed_ports(other), other.config["Env"] or ())
    return tuple(found)


def of_link(name: str, address: str, ports: Iterable[tuple[int, str]], environment: Iterable[str]) -> list[str]:
    """The variables of one link, in docker's words.

    name: `/container/alias`; ports, environment: the (number, protocol) that the linked container exposes, and its own
        variables
    """
    word = name.rpartition("/")[2].upper().replace("-", "_")
    ordered = sorted(ports, key=lambda port: (port[1] != "tcp", port[1], port[0]))
    found = [f"{word}_PORT={protocol}://{address}:{number}" for number, protocol in ordered[:1]]
    for number, protocol in ordered:
        prefix = f"{word}_PORT_{number}_{protocol.upper()}"
        found.append(f"{prefix}={protocol}://{address}:{number}")
        found += [f"{prefix}_ADDR={address}", f"{prefix}_PORT={number}", f"{prefix}_PROTO={protocol}"]
    for first, last, protocol in _ranges(ordered):
        prefix = f"{word}_PORT_{first}_{protocol.upper()}"
        for end, number in (("START", first), ("END", last)):
            found += [f"{prefix}_{end}={protocol}://{address}:{number}", f"{prefix}_PORT_{end}={number}"]
    found.append(f"{word}_NAME={name}")
    told = (each for each in environment if "=" in each and each.partition("=")[0] not in _NOT_TOLD)
    return found + [f"{word}_ENV_{each}" for each in told]


def _ranges(ordered: list[tuple[int, str]]) -> Iterator[tuple[int, int, str]]:
    """(first, last, protocol) of each run of two or more neighbouring ports."""
    at = 0
    while at < len(ordered):
        first, protocol = ordered[at]
        length = 1
        while ordered[at + length : at + length + 1] == [(first + length, protocol)]:
            length += 1
        if length > 1:
            yield first, first + length - 1, protocol
        at += length

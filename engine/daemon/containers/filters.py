"""Compile the filters of the container listing, given as names and values, into functions that test a container.

Runs in the daemon's request threads. One row of `FILTERS` is one filter of the API. A container passes a filter with
several values if any of them fits; but of the values of `label` and `annotation` all must fit.
"""

from collections.abc import Callable

from engine.daemon.containers.endpoints.shown import endpoints_of
from engine.daemon.containers.ports import open_ports
from engine.daemon.containers.record import Container, State
from engine.daemon.network.record import Published
from engine.daemon.parts import ContainerParts
from engine.daemon.patterns import matcher, truth
from engine.errors import Invalid, NotFound
from engine.literals import LAST_PORT, integer

Match = Callable[[Container, State], bool]
Compile = Callable[[ContainerParts, tuple[str, ...]], Match]

_ORDER = ("exited", "status", "is-task", "health", "before", "since", "ancestor", "publish", "expose")
STATUSES = ("created", "running", "paused", "restarting", "removing", "exited", "dead")
_HEALTH = ("none", "starting", "healthy", "unhealthy")
_BY_PORT = ("expose", "publish")
SHOW_ALL = "status"
"""With this filter, the listing shows containers that do not run even without `all`."""


def compile_filters(engine: ContainerParts, filters: dict[str, tuple[str, ...]]) -> list[Match]:
    """One function a filter. Raises Invalid for an unknown filter or value, NotFound for an unknown container."""
    for name in filters:
        if name not in FILTERS:
            raise Invalid(f"invalid filter '{name}'")
    # Of several that are wrong dockerd tells the first in its own order.
    names = sorted(filters, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    asked = {name: FILTERS[name](engine, filters[name]) for name in names if filters[name]}
    by_port = [asked.pop(name) for name in _BY_PORT if name in asked]
    if by_port:  # docker passes a container that passes either of these two
        return [*asked.values(), lambda container, state: any(match(container, state) for match in by_port)]
    return list(asked.values())


def _bad_value(name: str, value: str, what: str, allowed: tuple[str, ...]) -> Invalid:
    return Invalid(
        f"invalid filter '{name}={value}': invalid value for {what} ({value}): must be one of {', '.join(allowed)}"
    )


def _id(engine: ContainerParts, values: tuple[str, ...]) -> Match:
    ids = {engine.containers.whole_id(value) for value in values}
    return lambda container, _state: container.id in ids


def _name(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    passes = matcher(values)  # regular expressions, searched for anywhere in the name
    return lambda container, _state: passes(container.name) or passes(f"/{container.name}")


def _status(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    for value in values:
        if value not in STATUSES:
            raise _bad_value("status", value, "state", STATUSES)
    return lambda _container, state: state.status in values


def _health(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    for value in values:
        if value not in _HEALTH:
            raise _bad_value("health", value, "health", _HEALTH)
    return lambda _container, state: (state.health.status if state.health else "none") in values


def _exited(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    codes = set()
    for value in values:
        try:
            codes.add(integer(value))
        except Invalid as error:
            raise Invalid(f"invalid filter 'exited={value}': {error}") from error
    return lambda _container, state: state.status == "exited" and state.exit_code in codes


def _by_pairs(pairs: Callable[[Container], dict[str, str] | None]) -> Compile:
    """A filter whose values are names of labels or annotations, or `name=value`."""

    def compile_values(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
        wanted = [value.partition("=") for value in values]

        def match(container: Container, _state: State) -> bool:
            found = pairs(container) or {}
            return all(name in found and (not equals or found[name] == value) for name, equals, value in wanted)

        return match

    return compile_values


def _ancestor(engine: ContainerParts, values: tuple[str, ...]) -> Match:
    images = []
    for value in values:
        try:
            images.append(engine.images.find(value))
        except (Invalid, NotFound):
            # An image that does not exist, or cannot, has no containers, so it is no error.
            continue

    def match(container: Container, _state: State) -> bool:
        return any(
            container.image_id == image.id or (image.layers and container.layers[: len(image.layers)] == image.layers)
            for image in images
        )

    return match


def _before(engine: ContainerParts, values: tuple[str, ...]) -> Match:
    *_, limit = [engine.containers.find(value).created_ns for value in values]
    return lambda container, _state: container.created_ns < limit


def _since(engine: ContainerParts, values: tuple[str, ...]) -> Match:
    *_, limit = [engine.containers.find(value).created_ns for value in values]
    return lambda container, _state: container.created_ns > limit


def _network(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    def match(container: Container, _state: State) -> bool:
        for name, endpoint in container.networking.items():
            network_id = endpoint["NetworkID"]
            if name in values or (network_id and network_id.startswith(values)):
                return True
        return False

    return match


def _volume(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    def match(container: Container, _state: State) -> bool:
        return any(
            point["Destination"] in values or (point["Name"] or point["Source"]) in values for point in container.mounts
        )

    return match


def _isolation(_engine: ContainerParts, _values: tuple[str, ...]) -> Match:
    # Isolation is a Windows term; on Linux dockerd passes every container.
    return lambda _container, _state: True


def _is_task(_engine: ContainerParts, values: tuple[str, ...]) -> Match:
    tasks = truth("is-task", values)
    # Tasks belong to a swarm, and this engine is never part of one.
    return lambda _container, _state: not tasks


def _by_port(name: str, numbers: Callable[[tuple[int, str], list[Published]], set[int]]) -> Compile:
    """A filter whose values are ports (`80`, `80/udp`, `8000-8010/tcp`), as a listing shows them of a container."""

    def compile_values(engine: ContainerParts, values: tuple[str, ...]) -> Match:
        wanted = {port for value in values for port in _port_range(name, value)}

        def match(container: Container, state: State) -> bool:
            opened = open_ports(container, endpoints_of(engine, container, state))
            found = {f"{each}/{port[1]}" for port, published in opened.items() for each in numbers(port, published)}
            return not wanted.isdisjoint(found)

        return match

    return compile_values


def _port_range(name: str, value: str) -> set[str]:
    numbers, _, protocol = value.partition("/")
    first, dash, last = numbers.partition("-")
    low = _port(name, value, "start", first)
    high = _port(name, value, "end", last) if dash else low
    if high < low:
        raise _bad_port(name, value, f"invalid port range: {value}")
    return {f"{number}/{protocol.lower() or 'tcp'}" for number in range(low, high + 1)}


def _port(name: str, value: str, end: str, number: str) -> int:
    try:
        return integer(number, 0, LAST_PORT, reader="")
    except Invalid as reason:
        raise _bad_port(name, value, f"invalid {end} port '{number}': {reason}") from reason


def _bad_port(name: str, value: str, problem: str) -> Invalid:
    return Invalid(f"error while looking up for {name} {value}: {problem}")


FILTERS: dict[str, Compile] = {
    "ancestor": _ancestor,
    "annotation": _by_pairs(lambda container: container.host_config["Annotations"]),
    "before": _before,
    "exited": _exited,
    "expose": _by_port("expose", lambda port, _published: {port[0]}),
    "health": _health,
    "id": _id,
    "is-task": _is_task,
    "isolation": _isolation,
    "label": _by_pairs(lambda container: container.config["Labels"]),
    "name": _name,
    "network": _network,
    "publish": _by_port("publish", lambda _port, published: {each.host_port for each in published}),
    "since": _since,
    "status": _status,
    "volume": _volume,
}

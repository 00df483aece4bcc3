"""List a summary of each container that passes the filters, for GET /containers/json.

Runs in the daemon's request threads; it holds no lock for longer than one container's state takes to copy.
"""

import time
from collections.abc import Callable, Iterator

from engine.daemon.clock import SECOND, duration
from engine.daemon.containers import filters, ports
from engine.daemon.containers.endpoints import shown as networks
from engine.daemon.containers.record import Container, State
from engine.daemon.jsontext import Object
from engine.daemon.network.record import Endpoint
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotFound
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded for the containers that have links or mounts, and where sizes are asked for
    from engine.daemon.containers.endpoints import legacylinks
    from engine.daemon.containers.mounts import points
    from engine.daemon.containers.verbs import inspect as inspecting
else:
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")
    points = late("engine.daemon.containers.mounts.points")
    inspecting = late("engine.daemon.containers.verbs.inspect")

# dockerd's listing shows this for a container without a health check.
_NO_HEALTH = {"Status": "none", "FailingStreak": 0}
_HEALTH_WORDS = {"starting": " (health: starting)", "healthy": " (healthy)", "unhealthy": " (unhealthy)"}


@dataclass(frozen=True, slots=True)
class AskedListing:
    """The query of the call. limit: 0 or less for all; filters: name → values, as the client sent them."""

    all: bool = False
    limit: int = 0
    size: bool = False
    filters: dict[str, tuple[str, ...]] = field(default_factory=dict)


def list_containers(engine: ContainerParts, asked: AskedListing) -> list[Object]:
    """ContainerSummary of the chosen containers, newest first. Raises Invalid and NotFound for impossible filters."""
    now_ns = time.time_ns()
    found = []
    for container, state, beside in _chosen(engine, asked):
        summary = _summary(container, state, beside, status_text(state, now_ns))
        if asked.size:
            summary["SizeRw"], summary["SizeRootFs"] = inspecting.measure(engine, container)
        found.append(summary)
    return found


def encoded(
    engine: ContainerParts, asked: AskedListing, form: tuple[int, int], encode: Callable[[Object], bytes]
) -> Iterator[bytes]:
    """What `encode` makes of each entry of `list_containers`, without sizes. Raises what that does.

    form: says which form of an entry that is; an equal one makes the same. `encode` neither reads nor moves the Status,
    and takes parts of an entry too.
    """
    now_ns = time.time_ns()
    summaries = engine.containers.summaries
    for container, state, beside in _chosen(engine, asked):
        of = _made_of(container, state, beside, form)
        kept = summaries.find(container.id, of)
        if kept is None:
            seen = container.view(state)
            of = _made_of(seen, state, beside, form)
            kept = _around_status(_summary(seen, state, beside, ""), encode)
            summaries.keep(container.id, of, kept)
        yield b'%b"%b"%b' % (kept[0], status_text(state, now_ns).encode(), kept[1])


def _around_status(summary: Object, encode: Callable[[Object], bytes]) -> tuple[bytes, bytes]:
    """An entry as bytes, without the text of its Status, which changes with the time."""
    cut = list(summary).index("Status")
    before, after = dict(list(summary.items())[:cut]), dict(list(summary.items())[cut + 1 :])
    return encode(before)[:-1] + b',"Status":', b"," + encode(after)[1:]


_Beside = tuple[list[Endpoint], str, list[str], Object | None]
"""What an entry shows that is not part of the container's record: its endpoints, the name of its image, what other
containers call it, and the descriptor of its image.
"""


def _chosen(engine: ContainerParts, asked: AskedListing) -> Iterator[tuple[Container, State, _Beside]]:
    """The containers that are to be shown, newest first. Raises Invalid and NotFound."""
    matches = filters.compile_filters(engine, asked.filters)
    everything = asked.all or asked.limit > 0 or filters.SHOW_ALL in asked.filters
    names = _ImageNames(engine)
    aliases = _aliases(engine)
    left = asked.limit if asked.limit > 0 else -1
    descriptors = engine.containers.descriptors
    for container in engine.containers.all():
        state = container.snapshot()
        if not (everything or state.running):
            continue
        if matches and not all(match(container, state) for match in matches):
            continue
        endpoints = networks.endpoints_of(engine, container, state)
        descriptor = descriptors.get((container.image_id, container.manifest))
        yield container, state, (endpoints, names.shown(container), aliases.get(container.id, []), descriptor)
        left -= 1
        if not left:
            break


def _made_of(container: Container, state: State, beside: _Beside, form: tuple[int, int]) -> tuple[object, ...]:
    """All that decides an entry but its Status and what never changes in a container's life."""
    return (
        form,
        container.name,
        container.config,
        container.host_config,
        container.networking,
        container.mounts,
        [point["Source"] for point in container.mounts],  # a start finds that of a volume which a plugin mounts
        state.status,
        state.health,
        not state.started_ns,
        beside,
    )


def _aliases(engine: ContainerParts) -> dict[str, list[str]]:
    """Container's id → the names that other containers' links give to it."""
    if not engine.containers.any(lambda container: bool(container.host_config["Links"])):
        return {}
    return legacylinks.aliases(engine)


class _ImageNames:
    """The name by which to show a container's image; every name is looked up once in a listing."""

    def __init__(self, engine: ContainerParts) -> None:
        self._engine = engine
        self._ids: dict[str, str] = {}

    def shown(self, container: Container) -> str:
        """The name that the client gave, or the image's id when that name means another image by now, or none."""
        name = container.image
        if name == container.image_id:
            return name
        found = self._ids.get(name)
        if found is None:
            found = self._ids[name] = self._find(name)
        return name if found == container.image_id else container.image_id

    def _find(self, name: str) -> str:
        if not name:
            return ""
        try:
            return self._engine.images.find(name).id
        except (NotFound, Invalid):  # an older `engine migrate` took what is no name
            return ""


def _summary(container: Container, state: State, beside: _Beside, status: str) -> Object:
    config, host_config = container.config, container.host_config
    endpoints, image, aliases, descriptor = beside
    summary: Object = {
        "Id": container.id,
        "Names": [f"/{container.name}", *aliases],
        "Image": image,
        "ImageID": container.image_id,
    }
    if descriptor is not None:
        summary["ImageManifestDescriptor"] = descriptor
    shown_host: Object = {"NetworkMode": host_config["NetworkMode"]}
    if host_config["Annotations"]:
        shown_host["Annotations"] = host_config["Annotations"]
    summary.update(
        Command=_command(container),
        Created=container.created_ns // SECOND,
        Ports=ports.summaries(ports.open_ports(container, endpoints)),
        Labels=config["Labels"],
        State=state.status,
        Status=status,
        HostConfig=shown_host,
        Health=_health(state),
        NetworkSettings={"Networks": networks.listed(container, state, endpoints)},
        Mounts=points.show(container) if container.mounts else [],
    )
    return summary


def _health(state: State) -> Object:
    if state.health is None:
        return _NO_HEALTH
    return {"Status": state.health.status, "FailingStreak": state.health.failing_streak}


def _command(container: Container) -> str:
    # Quotes within an argument are not escaped: dockerd does not escape them, and clients expect that.
    return " ".join([container.path, *(f"'{word}'" if " " in word else word for word in container.args)])


def status_text(state: State, now_ns: int) -> str:
    """The state in the words of `docker ps`: `Up 3 minutes`, `Exited (0) 2 seconds ago`, ..."""
    match state.status:
        case "running":
            health = _HEALTH_WORDS.get(state.health.status, "") if state.health else ""
            return f"Up {duration((now_ns - state.started_ns) / SECOND)}{health}"
        case "paused":
            return f"Up {duration((now_ns - state.started_ns) / SECOND)} (Paused)"
        case "restarting":
            return f"Restarting ({state.exit_code}) {duration((now_ns - state.finished_ns) / SECOND)} ago"
        case "exited":
            return f"Exited ({state.exit_code}) {duration((now_ns - state.finished_ns) / SECOND)} ago"
        case "removing":
            return "Removal In Progress"
        case "dead":
            return "Dead"
    return "Created"

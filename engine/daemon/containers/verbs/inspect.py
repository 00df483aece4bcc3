"""Show one container in full, for GET /containers/{id}/json.

Pure but for sizes, when they are asked for, and for what is kept of the last answer; runs in the daemon's request
threads. The dicts of the record are shown as they are and never copied, since nothing changes them once a container
owns them.
"""

from collections.abc import Callable, Mapping

from engine.daemon.clock import rfc3339
from engine.daemon.containers import files, paths
from engine.daemon.containers.config import CONFIG_OPTIONAL, HOST_CONFIG_OPTIONAL
from engine.daemon.containers.contents import sizes
from engine.daemon.containers.endpoints import shown as networks
from engine.daemon.containers.mounts import points
from engine.daemon.containers.output import logconfig
from engine.daemon.containers.record import Container, Health, State
from engine.daemon.containers.security import joins, resources, walls
from engine.daemon.jsontext import Object
from engine.daemon.network.record import Endpoint
from engine.daemon.parts import ContainerParts
from engine.late import TYPE_CHECKING, late
from engine.settings.storagedriver import GRAPH_DRIVERS, OVERLAY2, reported

if TYPE_CHECKING:  # loaded for the few containers that have links
    from engine.daemon.containers.endpoints import legacylinks
else:
    legacylinks = late("engine.daemon.containers.endpoints.legacylinks")

_ETC = {"ResolvConfPath": "resolv.conf", "HostnamePath": "hostname", "HostsPath": "hosts"}
# The values with which an optional key is left out. A StopTimeout of 0, an Init of false and an empty Healthcheck are
# shown: they are pointers of Go's.
_EMPTY: tuple[object, ...] = (None, "", {}, [])


def encoded(
    engine: ContainerParts, container: Container, form: tuple[int, int], encode: Callable[[Object], bytes]
) -> bytes:
    """What `encode` makes of `inspect`. form: says which form of the answer that is; an equal one makes the same"""
    if container.host_config["Links"]:
        return encode(inspect(engine, container))  # other containers' names are part of it
    state, endpoints, outside = _seen(engine, container)
    of = _made_of(container, state, endpoints, form, outside)
    kept = engine.containers.details.find(container.id, of)
    if kept is None:
        container = container.view(state)
        of = _made_of(container, state, endpoints, form, outside)
        kept = (encode(_show(engine, container, state, endpoints, outside)),)
        engine.containers.details.keep(container.id, of, kept)
    return kept[0]


def inspect(engine: ContainerParts, container: Container, size: bool = False) -> Object:
    """A ContainerInspectResponse; with `size`, its directories are walked for SizeRw and SizeRootFs."""
    found = measure(engine, container) if size else None
    return _show(engine, container, *_seen(engine, container), found)


_Outside = tuple[str, Object | None]
"""What inspect shows that is not part of the record: the AppArmor profile, and the descriptor of the image."""


def _seen(engine: ContainerParts, container: Container) -> tuple[State, list[Endpoint], _Outside]:
    state = container.snapshot()
    descriptor = engine.containers.descriptors.get((container.image_id, container.manifest))
    outside = walls.apparmor_of(container.host_config), descriptor
    return state, networks.endpoints_of(engine, container, state), outside


def _made_of(
    container: Container, state: State, endpoints: list[Endpoint], form: tuple[int, int], outside: _Outside
) -> tuple[object, ...]:
    """All that decides what `_show` shows of a container, but for what never changes in its life."""
    return (
        form,
        state,
        container.name,
        container.config,
        container.host_config,
        container.networking,
        container.mounts,
        [point["Source"] for point in container.mounts],  # a start finds that of a volume which a plugin mounts
        tuple(container.execs),
        (container.process_label, container.file_label),
        endpoints,
        outside,
    )


def _show(
    engine: ContainerParts,
    container: Container,
    state: State,
    endpoints: list[Endpoint],
    outside: _Outside,
    found: tuple[int, int] | None = None,
) -> Object:
    """found: its sizes; None where they are not asked for"""
    settings = engine.settings
    apparmor, descriptor = outside
    where = paths.of(settings.data_root, settings.exec_root, container.id)
    # A container that joins the network of another container has the other's files.
    networked = joins.container_of(container.host_config["NetworkMode"])
    network = paths.of(settings.data_root, settings.exec_root, networked) if networked else where
    # dockerd makes these files at the first start, and shows no place of theirs before it.
    etc = files.mounted(container) if state.started_ns else ()
    driver = reported(settings.storage_driver, engine.storage == "copy")
    shown: Object = {
        "Id": container.id,
        "Created": rfc3339(container.created_ns),
        "Path": container.path,
        "Args": container.args,
        "State": show_state(state),
        "Image": container.image_id,
        **{key: network.etc(name) if name in etc else "" for key, name in _ETC.items()},
        "LogPath": logconfig.log_path(container, where),
        "Name": f"/{container.name}",
        "RestartCount": state.restart_count,
        "Driver": driver,
        "Platform": "linux",
        "MountLabel": container.file_label,
        "ProcessLabel": container.process_label,
        "AppArmorProfile": apparmor,
        "ExecIDs": list(container.execs) or None,
        "HostConfig": _show_host_config(engine, container),
        **_storage(engine, container, driver, where),
    }
    if found is not None:
        shown["SizeRw"], shown["SizeRootFs"] = found
    shown["Mounts"] = points.show(container)
    if state.started_ns:
        shown.update(points.show_etc(container))
    shown["Config"] = _without_empty(container.config, CONFIG_OPTIONAL)
    shown["NetworkSettings"] = networks.settings(container, state, endpoints)
    if descriptor is not None:
        shown["ImageManifestDescriptor"] = descriptor
    return shown


def _storage(engine: ContainerParts, container: Container, driver: str, where: paths.Paths) -> Object:
    """The directories of its file system where its driver is one of dockerd's own, else the name of the snapshotter."""
    if driver not in GRAPH_DRIVERS:
        return {"Storage": {"RootFS": {"Snapshot": {"Name": driver}}}}
    if driver != OVERLAY2:
        return {"GraphDriver": {"Name": driver, "Data": None}}
    below = [f"{engine.settings.data_root}/layers/{layer}" for layer in reversed(container.layers)]
    lower = {"LowerDir": ":".join(below)} if below else {}
    data = {"ID": container.id, **lower, "UpperDir": where.upper, "WorkDir": where.work}
    return {"GraphDriver": {"Name": driver, "Data": data}}


def measure(engine: ContainerParts, container: Container) -> tuple[int, int]:
    """(SizeRw, SizeRootFs) of a container, in bytes."""
    settings = engine.settings
    upper = paths.of(settings.data_root, settings.exec_root, container.id).upper
    return sizes.measure(container, f"{settings.data_root}/layers", upper, engine.storage)


def show_state(state: State) -> Object:
    """The ContainerState of one moment."""
    shown: Object = {
        "Status": state.status,
        "Running": state.running,
        "Paused": state.status == "paused",
        "Restarting": state.status == "restarting",
        "OOMKilled": state.oom_killed,
        "Dead": state.status == "dead",
        "Pid": state.pid,
        "ExitCode": state.exit_code,
        "Error": state.error,
        "StartedAt": rfc3339(state.started_ns),
        "FinishedAt": rfc3339(state.finished_ns),
    }
    if state.health is not None:
        shown["Health"] = _show_health(state.health)
    return shown


def _show_health(health: Health) -> Object:
    log = [
        {
            "Start": rfc3339(probe.start_ns),
            "End": rfc3339(probe.end_ns),
            "ExitCode": probe.exit_code,
            "Output": probe.output,
        }
        for probe in health.log
    ]
    return {"Status": health.status, "FailingStreak": health.failing_streak, "Log": log}


def asked_mac(container: Container) -> str:
    """The MAC address that was asked for in the network of NetworkMode; empty for none."""
    mode = container.host_config["NetworkMode"]
    settings = container.networking.get("bridge" if mode == "default" else mode)
    return settings["MacAddress"] if settings is not None else ""


def _show_host_config(engine: ContainerParts, container: Container) -> Object:
    shown = _without_empty(container.host_config, HOST_CONFIG_OPTIONAL)
    if default := engine.settings.default_ulimits:
        limits = resources.rlimits_of(container.host_config, default)
        shown["Ulimits"] = [{"Name": each.name, "Hard": each.hard, "Soft": each.soft} for each in limits]
    if shown["Links"]:
        shown["Links"] = legacylinks.shown(engine, container)
    return shown


def _without_empty(values: Mapping[str, object], optional: frozenset[str]) -> Object:
    """`values` as Go writes them: without the optional keys whose value is empty."""
    return {
        key: value
        for key, value in values.items()
        if key not in optional or value not in _EMPTY or (key == "Healthcheck" and value is not None)
    }

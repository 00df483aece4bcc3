"""Find the namespaces that a container shares with the host or joins from another container, at each start.

Runs in the API's threads at each start, for the modes of HostConfig that `validate` let pass. Another container is
named by its process 1 and the start time of that, so that init cannot join a process that has got its pid meanwhile.
This module never takes another container's lock: init finds out whether that container has ended since.
"""

from engine.annotating import Literal
from engine.daemon.containers.record import Container, State
from engine.daemon.containers.shapes import HostConfig
from engine.daemon.parts import ContainerPart, EndpointParts
from engine.daemon.store import containers as table
from engine.dataclass import dataclass
from engine.errors import Conflict, EngineError, Invalid, NotFound, SystemFailure
from engine.sandbox.spec import Mount

OWN = ("mount", "pid", "uts", "ipc", "cgroup", "net")
_Mode = Literal["PidMode", "UTSMode", "IpcMode", "CgroupnsMode", "NetworkMode"]
_CONTAINER = "container:"
_SHAREABLE = frozenset({"shareable", "host"})
# (the key of HostConfig, the namespace that its mode is about)
_MODES: tuple[tuple[_Mode, str], ...] = (
    ("PidMode", "pid"),
    ("UTSMode", "uts"),
    ("IpcMode", "ipc"),
    ("CgroupnsMode", "cgroup"),
    ("NetworkMode", "net"),
)


@dataclass(frozen=True, slots=True)
class Namespaces:
    """The namespaces of a start. own: those to be made; joined: (namespace, pid of process 1, its start time)."""

    own: tuple[str, ...]
    joined: tuple[tuple[str, int, int], ...] = ()


_ORDINARY = Namespaces(OWN)


def container_of(mode: str) -> str:
    """The id (or name) in a mode `container:ID`; empty for any other mode."""
    return mode.removeprefix(_CONTAINER) if mode.startswith(_CONTAINER) else ""


def namespaces_of(engine: ContainerPart, container: Container) -> Namespaces:
    """The namespaces that a start of the container makes and joins.

    Raises docker's refusals for a container that does not exist, does not run, or does not share: SystemFailure,
    Conflict, Invalid.
    """
    modes = [(container.host_config[key], name) for key, name in _MODES]
    if container.config["NetworkDisabled"]:
        modes = [(mode, name) for mode, name in modes if name != "net"]  # a network namespace with loopback alone
    if not any(mode == "host" or mode.startswith(_CONTAINER) for mode, _ in modes):
        return _ORDINARY
    shared = {name for mode, name in modes if mode == "host"}
    joined = []
    for mode, name in modes:
        if mode.startswith(_CONTAINER):
            state = _FINDERS[name](engine, container, container_of(mode))
            joined.append((name, state.pid, state.pid_start))
            shared.add(name)
    return Namespaces(tuple(name for name in OWN if name not in shared), tuple(joined))


def networked(engine: ContainerPart, container: Container) -> Container | None:
    """The container whose network this one joins; None for a network of its own. Raises SystemFailure."""
    wanted = container_of(container.host_config["NetworkMode"])
    if not wanted or container.config["NetworkDisabled"]:
        return None
    try:
        other = engine.containers.find(wanted)
    except (NotFound, Invalid) as error:
        raise SystemFailure(f"joining network namespace of container: {error}") from error
    if other is container:
        raise SystemFailure("cannot join own network namespace")
    return other


def has_guests(engine: ContainerPart, container: Container) -> bool:
    """Whether another container runs in the network namespace of this one."""

    def joined(other: Container) -> bool:
        wanted = container_of(other.host_config["NetworkMode"])
        return bool(wanted) and other.state.alive and (wanted == container.name or container.id.startswith(wanted))

    return engine.containers.any(joined)


def take_name(engine: EndpointParts, container: Container) -> None:
    """Give a container that joins a network the host name of the container that owns the network.

    As in docker, its Config is changed, and with it its hostname, at each start. Raises what `networked` raises, and
    SystemFailure.
    """
    other = networked(engine, container)
    if other is None:
        return
    host, domain = other.config["Hostname"], other.config["Domainname"]
    if (host, domain) == (container.config["Hostname"], container.config["Domainname"]):
        return
    with container.changed:
        container.config = {**container.config, "Hostname": host, "Domainname": domain}
        with engine.database.transaction(durable=False) as connection:
            table.save_settings(connection, container)


def _network(engine: ContainerPart, container: Container, wanted: str) -> State:
    other = networked(engine, container)
    assert other is not None  # its mode names a container, and its network is not disabled
    state = other.snapshot()
    if not state.pid:
        what = f"container {other.name} is {state.status}"
        raise Conflict(f"cannot join network namespace of a non running container: {what}")
    if state.status == "restarting":
        raise Conflict(f"cannot join network namespace of container: {_restarting(wanted)}")
    return state


def _ipc(engine: ContainerPart, container: Container, wanted: str) -> State:
    other, state = _running(engine, container, wanted, "IPC")
    mode = other.host_config["IpcMode"]
    if mode not in _SHAREABLE and not container_of(mode):
        hint = "non-shareable IPC (hint: use IpcMode:shareable for the donor container)"
        raise Invalid(f"failed to join IPC namespace: container {wanted}: {hint}")
    return state


def _pid(engine: ContainerPart, container: Container, wanted: str) -> State:
    try:
        return _running(engine, container, wanted, "PID")[1]
    except EngineError as error:
        # dockerd finds this out while it puts the run together, and tells whatever goes wrong then as its own failure.
        raise SystemFailure(str(error)) from error


def _running(engine: ContainerPart, container: Container, wanted: str, what: str) -> tuple[Container, State]:
    try:
        other = engine.containers.find(wanted)
    except (NotFound, Invalid) as error:
        raise Invalid(f"failed to join {what} namespace: {error}") from error
    state = other.snapshot()
    if other is container or not state.pid:
        raise Conflict(f"failed to join {what} namespace: container {wanted} is not running")
    if state.status == "restarting":
        raise Conflict(f"failed to join {what} namespace: {_restarting(wanted)}")
    return other, state


def _restarting(wanted: str) -> str:
    return f"Container {wanted} is restarting, wait until the container is running"


_FINDERS = {"net": _network, "ipc": _ipc, "pid": _pid}


def shm_of(host_config: HostConfig, namespaces: Namespaces) -> Mount | None:
    """The mount on /dev/shm where it is not the container's own; None where nothing is mounted there at all.

    Only for an IpcMode that is neither `private` nor `shareable`.
    """
    mode = host_config["IpcMode"]
    if mode == "none":
        return None
    if mode == "host":
        return Mount("bind", "/dev/shm", "/dev/shm", ("rbind",), propagation="rprivate")
    ((_, pid, start),) = [each for each in namespaces.joined if each[0] == "ipc"]
    return Mount("tmpfs", "shm", "/dev/shm", holder=(pid, start, "/dev/shm"))

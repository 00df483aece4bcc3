"""Keeping those who may trace (CAP_SYS_PTRACE) from what is the engine's own in their PID namespace.

Runs in the API's threads, at each start and exec. Whoever may trace a process has all that it has. An exec's newborn is
to have nothing (see `wire.schema.Exec.traced`); the init of a container that joins a PID namespace has the host's
root and rights until it executes its command, and for so long those who could trace it are frozen. A container may be
named in many ways, and namespaces be joined in chains: so whoever joins any PID namespace counts for all.
"""

import contextlib
from collections.abc import Iterator

from engine.daemon.containers.record import Container
from engine.daemon.containers.security import joins, walls
from engine.daemon.parts import ContainerPart, SecurityParts
from engine.errors import Conflict
from engine.sandbox import capabilities

_PATIENCE_SECONDS = 10.0


def may_trace(container: Container) -> bool:
    """Whether its processes have the capability."""
    host_config = container.host_config
    if not host_config["Privileged"] and not host_config["CapAdd"]:
        return False
    names = capabilities.effective(host_config["CapAdd"], host_config["CapDrop"], host_config["Privileged"])
    return "CAP_SYS_PTRACE" in names


def traced(engine: ContainerPart, container: Container) -> bool:
    """Whether anybody in the container's PID namespace may trace."""
    if may_trace(container) or _joins(container):
        return True
    return engine.containers.any(lambda other: _joins(other) and may_trace(other))


@contextlib.contextmanager
def stilled(engine: SecurityParts, container: Container) -> Iterator[None]:
    """While the container is started: nobody who may trace runs in a PID namespace that it joins.

    The caller holds `container.operation`; those of the others are held meanwhile, so that nobody thaws them. Raises
    Conflict when one is busy for long, SystemFailure when it cannot be frozen.
    """
    with contextlib.ExitStack() as stack:
        for other in _tracers(engine, container) if _joins(container) else ():
            if not other.operation.acquire(timeout=_PATIENCE_SECONDS):
                raise Conflict(f"failed to join PID namespace: container {other.id} is busy")
            stack.callback(other.operation.release)
            if other.snapshot().status == "running":
                parent = walls.cgroup_parent(other)
                stack.callback(engine.cgroups.thaw, other.id, parent)
                engine.cgroups.freeze(other.id, parent)
        yield


def _tracers(engine: ContainerPart, container: Container) -> list[Container]:
    """Those who run and may trace in the namespace; in one order for all, as they are locked."""
    named = joins.container_of(container.host_config["PidMode"])

    def there(other: Container) -> bool:
        return _joins(other) or other.name == named.removeprefix("/") or other.id.startswith(named)

    found = [other for other in engine.containers.all() if other is not container and may_trace(other) and there(other)]
    return sorted((other for other in found if other.snapshot().alive), key=lambda other: other.id)


def _joins(container: Container) -> bool:
    return bool(joins.container_of(container.host_config["PidMode"]))

"""Protect the engine's own processes in a PID namespace from container processes with CAP_SYS_PTRACE.

Runs in the API's threads, at each start and exec. A process that may trace another one can take all that it has. So the
new process of an exec must have nothing to take (see `wire.schema.Exec.traced`). The init of a container that joins a
PID namespace has the host's root and rights until it executes its command; for so long the containers that could trace
it are frozen. A container may be named in many ways, and namespaces may be joined in chains. So every container that
joins any PID namespace is taken to be in all of them.
"""

import contextlib
from collections.abc import Iterator

from engine.daemon.containers.record import Container
from engine.daemon.containers.security import cgroupparent, joins
from engine.daemon.parts import ContainerPart, SecurityParts
from engine.errors import Conflict
from engine.sandbox import capabilities
from engine.sandbox.cgroups.hierarchy import Gone

_PATIENCE_SECONDS = 10.0


def may_trace(container: Container) -> bool:
    """Whether the container's processes have CAP_SYS_PTRACE."""
    host_config = container.host_config
    if not host_config["Privileged"] and not host_config["CapAdd"]:
        return False
    names = capabilities.effective(host_config["CapAdd"], host_config["CapDrop"], host_config["Privileged"])
    return "CAP_SYS_PTRACE" in names


def traced(engine: ContainerPart, container: Container) -> bool:
    """Whether any process in the container's PID namespace may trace others."""
    if may_trace(container) or _joins(container):
        return True
    return engine.containers.any(lambda other: _joins(other) and may_trace(other))


@contextlib.contextmanager
def stilled(engine: SecurityParts, container: Container) -> Iterator[None]:
    """While the container is started, keep every container frozen that may trace in a PID namespace that it joins.

    The caller holds `container.operation`. The same lock of each frozen container is held meanwhile, so that no verb
    thaws it. Raises Conflict when one is busy for 10 seconds, SystemFailure when one cannot be frozen.
    """
    with contextlib.ExitStack() as stack:
        for other in _tracers(engine, container) if _joins(container) else ():
            if not other.operation.acquire(timeout=_PATIENCE_SECONDS):
                raise Conflict(f"failed to join PID namespace: container {other.id} is busy")
            stack.callback(other.operation.release)
            if other.snapshot().status == "running":
                parent = cgroupparent.of(other)
                stack.callback(engine.cgroups.thaw, other.id, parent)
                with contextlib.suppress(Gone):  # it has just ended
                    engine.cgroups.freeze(other.id, parent)
        yield


def _tracers(engine: ContainerPart, container: Container) -> list[Container]:
    """The running containers that may trace in the namespace, sorted by id: all threads lock them in that order."""
    named = joins.container_of(container.host_config["PidMode"])

    def there(other: Container) -> bool:
        return _joins(other) or other.name == named.removeprefix("/") or other.id.startswith(named)

    found = [other for other in engine.containers.all() if other is not container and may_trace(other) and there(other)]
    return sorted((other for other in found if other.snapshot().alive), key=lambda other: other.id)


def _joins(container: Container) -> bool:
    return bool(joins.container_of(container.host_config["PidMode"]))

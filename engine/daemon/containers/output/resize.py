"""Send a container's terminal its new size, through the container's monitor."""

from engine.daemon.containers.announce import announce
from engine.daemon.containers.record import Container
from engine.daemon.parts import OutputParts
from engine.errors import Conflict
from engine.wire.schema import Resize


def resize(engine: OutputParts, container: Container, rows: int, columns: int) -> None:
    """Set the size, in characters; nothing happens without a terminal. Raises Conflict when it does not run."""
    state = container.snapshot()
    if not state.running:
        raise Conflict(f"container {container.id} is not running")
    if not state.alive:
        raise Conflict(f"Container {container.id} is restarting, wait until the container is running")
    engine.monitors.send(container.id, Resize(rows, columns), [])
    announce(engine, container, "resize", height=rows, width=columns)

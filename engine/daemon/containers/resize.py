"""Tell a container's terminal its new size."""

from engine.daemon.containers.record import Container
from engine.errors import Conflict
from engine.wire.messages import Resize


def resize(engine: object, container: Container, rows: int, columns: int) -> None:
    """Set the size, in characters; nothing happens without a terminal. Raises Conflict when it does not run."""
    if not container.snapshot().running:
        raise Conflict(f"container {container.id} is not running")
    engine.links.send(container.id, Resize(rows, columns), [])

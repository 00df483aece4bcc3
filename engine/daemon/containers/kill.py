"""Send a signal to a container's process 1."""

from engine.daemon.containers.record import Container
from engine.daemon.runtime import processes
from engine.errors import Conflict


def kill(engine: object, container: Container, number: int) -> None:
    """Send signal `number`; raises Conflict when the container is not running."""
    state = container.snapshot()
    if not state.running or not processes.send_signal(state.pid, state.pid_start, number):
        raise Conflict(f"container {container.id} is not running")

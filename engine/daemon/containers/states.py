"""The states of a container and the moves between them: one table and one function.

Pure. `paused`, `restarting` and `dead` have their rows before they have their verbs.
"""

from engine.daemon.containers.record import Container
from engine.errors import Conflict

MOVES: dict[str, frozenset[str]] = {
    "created": frozenset({"running", "removing"}),
    "running": frozenset({"paused", "restarting", "exited", "removing"}),
    "paused": frozenset({"running", "exited", "removing"}),
    "restarting": frozenset({"running", "exited", "removing"}),
    "exited": frozenset({"running", "removing"}),
    "removing": frozenset({"dead"}),
    "dead": frozenset({"removing"}),
}


def move(container: Container, to: str) -> None:
    """Put the container into state `to` and wake those who wait; the caller holds `container.changed`.

    Raises Conflict for a move that is not in the table.
    """
    state = container.state
    if to not in MOVES[state.status]:
        raise Conflict(f"container {container.id} cannot go from {state.status} to {to}")
    state.status = to
    container.changed.notify_all()

"""The states of a container and the moves between them: one table and one function.

Pure. What an illegal move is called in docker's words is the verb's to say; this is the last line of defence.
"""

from engine.daemon.containers.record import Container
from engine.errors import Conflict

MOVES: dict[str, frozenset[str]] = {
    "created": frozenset({"running", "removing"}),
    "running": frozenset({"paused", "restarting", "exited"}),
    "paused": frozenset({"running", "restarting", "exited"}),
    # Its last run has ended, and its policy wants another one: until then, or until somebody stops it.
    "restarting": frozenset({"running", "exited"}),
    # To "restarting" only at a daemon's start.
    "exited": frozenset({"running", "restarting", "removing"}),
    "removing": frozenset({"dead"}),
    "dead": frozenset({"removing"}),
}
_GOES_ON = frozenset({"running", "paused"})


def move(container: Container, to: str) -> None:
    """Put the container into state `to` and wake those who wait; the caller holds `container.changed`.

    Raises Conflict for a move that is not in the table.
    """
    state = container.state
    if to not in MOVES[state.status]:
        raise Conflict(f"container {container.id} cannot go from {state.status} to {to}")
    state.status = to
    container.changed.notify_all()
    if to not in _GOES_ON:
        container.ring()

"""The states of a container and the moves between them, as one table and one function that makes a move.

Pure. The verbs refuse an illegal move before, in docker's words; the check here is the last line of defence.
"""

from engine.daemon.containers.record import Container
from engine.errors import Conflict

MOVES: dict[str, frozenset[str]] = {
    "created": frozenset({"running", "removing"}),
    "running": frozenset({"paused", "restarting", "exited"}),
    "paused": frozenset({"running", "restarting", "exited"}),
    # The last run has ended, and the restart policy wants another one. The state lasts until then, or until a client
    # stops the container.
    "restarting": frozenset({"running", "exited"}),
    # The move to "restarting" happens only at a daemon's start.
    "exited": frozenset({"running", "restarting", "removing"}),
    "removing": frozenset({"dead"}),
    "dead": frozenset({"removing"}),
}
_GOES_ON = frozenset({"running", "paused"})


def move(container: Container, to: str) -> None:
    """Put the container into state `to` and wake the waiters; the caller holds `container.changed`.

    Raises Conflict for a move that is not in the table.
    """
    state = container.state
    if to not in MOVES[state.status]:
        raise Conflict(f"container {container.id} cannot go from {state.status} to {to}")
    state.status = to
    container.changed.notify_all()
    if to not in _GOES_ON:
        container.ring()

"""Wait for a container: until it is not running, until its next end, or until it is removed.

Runs in the API's threads. A waiter sleeps on the container's own condition and wakes by itself only to see whether its
client is still there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.daemon.containers.record import Container
from engine.errors import Invalid

CONDITIONS = ("not-running", "next-exit", "removed")
_CLIENT_CHECK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who waits; made before the answer's head is sent, so that an end in between is not missed."""

    container: Container
    condition: str
    exits_before: int

    def _over(self) -> bool:
        container = self.container
        if container.removed:
            return True
        if self.condition == "removed":
            return False
        if self.condition == "next-exit":
            return container.exits > self.exits_before
        return not container.state.running

    def result(self, gone: Callable[[], bool]) -> tuple[int, str] | None:
        """The exit code and the error text, or None when `gone` says that the client has left."""
        container = self.container
        with container.changed:
            while not container.changed.wait_for(self._over, _CLIENT_CHECK_SECONDS):
                if gone():
                    return None
            # As in dockerd a removal that went well leaves no error: who called start has heard of the failure there.
            failed = container.state.exit_code and not container.removed
            return container.state.exit_code, container.state.error if failed else ""


def subscribe(container: Container, condition: str) -> Waiter:
    """Begin to wait; raises Invalid for an unknown condition."""
    if condition not in CONDITIONS:
        raise Invalid(f'invalid condition: "{condition}"')
    with container.changed:
        return Waiter(container, condition, container.exits)

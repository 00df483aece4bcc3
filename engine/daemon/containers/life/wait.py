"""Wait for a container: until it is not running, until its next end, or until it is removed.

Runs in the API's threads. A waiter sleeps on the container's bell and on its client's connection at once, and wakes for
nothing else. As in dockerd, an end that a restart policy follows up lets go those who wait for "not running" too.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.daemon.containers.record import Container
from engine.errors import Invalid

CONDITIONS = ("not-running", "next-exit", "removed")


@dataclass(frozen=True, slots=True)
class Waiter:
    """One who waits; made before the answer's head is sent, so that an end in between is not missed."""

    container: Container
    condition: str
    exits_before: int
    running_before: bool

    def _over(self) -> bool:
        container = self.container
        if container.removed:
            return True
        if self.condition == "removed":
            return False
        if self.condition == "not-running" and not self.running_before:
            return True
        return container.exits != self.exits_before

    def result(self, sleep: Callable[[int], object]) -> tuple[int, str]:
        """The exit code and the error text.

        sleep: return when the descriptor it is given is readable, or raise whatever is to end the wait
        """
        container = self.container
        while True:
            with container.changed:
                if self._over():
                    return self._told()
                bell = container.listen()
            try:
                sleep(bell.descriptor)
            finally:
                with container.changed:
                    container.quit(bell)

    def _told(self) -> tuple[int, str]:
        container = self.container
        if not container.removed and self.running_before and container.exits != self.exits_before:
            return container.last_exit, ""  # the next run may have begun by now
        # As in dockerd a removal that went well leaves no error: who called start has heard of the failure there.
        failed = container.state.exit_code and not container.removed
        return container.state.exit_code, container.state.error if failed else ""


def subscribe(container: Container, condition: str) -> Waiter:
    """Begin to wait; raises Invalid for an unknown condition."""
    if condition not in CONDITIONS:
        raise Invalid(f'invalid condition: "{condition}"')
    with container.changed:
        return Waiter(container, condition, container.exits, container.state.running)

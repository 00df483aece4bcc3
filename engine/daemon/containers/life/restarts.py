"""Run a container again for its restart policy, after its back-off delay and at a daemon's start.

The engine's schedule begins each try; the try runs in a short-lived thread of its own and holds `container.operation`.
A try is for one end (`container.exits`): when the container was stopped, started or removed meanwhile, it does nothing.
"""

import logging
from collections.abc import Iterable

from engine.daemon.containers import states
from engine.daemon.containers.life import policy
from engine.daemon.containers.record import Container
from engine.daemon.containers.saving import save
from engine.daemon.parts import ContainerParts
from engine.daemon.runtime.background import later
from engine.errors import EngineError
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first start
    from engine.daemon.containers.verbs import start, wait
else:
    start = late("engine.daemon.containers.verbs.start")
    wait = late("engine.daemon.containers.verbs.wait")

log = logging.getLogger(__name__)


def schedule(engine: ContainerParts, container: Container) -> None:
    """Schedule the next run of a container that is `restarting` for the end of its back-off delay."""
    with container.changed:
        if container.state.status == "restarting":
            exits = container.exits
            container.retry = engine.schedule.at(container.delay, lambda: later(again, engine, container, exits))


def again(engine: ContainerParts, container: Container, exits: int) -> None:
    """Start the next run, if it is still wanted. As in dockerd, no further try follows a start that fails."""
    # No image needs to be copied for this start: the container has run before.
    with container.operation:
        container.settled()
        with container.changed:
            if container.exits != exits or container.state.status != "restarting":
                return
            container.retry = None
        try:
            start.launch(engine, container, by_hand=False)
        except Exception as error:  # whatever it was: no other thread would change the container's state
            unforeseen = not isinstance(error, EngineError)
            log.error(
                "container %s: its restart policy could not start it again: %s",
                container.id,
                error,
                exc_info=unforeseen,
            )
            with container.changed:
                container.exits += 1
                container.state.error = reasons.whole(error)
                states.move(container, "exited")
                save(engine, container)
    wait.entrust(engine, container)


def wanted_at_start(container: Container) -> bool:
    """At a daemon's start: mark a container that does not run and that its policy wants to run; True when it is one.

    The start (`resume`) saves the new state. If none comes, nothing is saved: the next daemon would decide the same.
    """
    with container.changed:
        state = container.state
        waits = state.status == "restarting"
        if not waits:
            wanted = state.status == "exited" and policy.runs_again(
                container.host_config["RestartPolicy"],
                state.exit_code,
                by_hand=state.stopped_by_hand,
                count=state.restart_count,
            )
            if not wanted:
                return False
            states.move(container, "restarting")
        # As with a start by a client: dockerd resets the count and the stop.
        state.restart_count, state.stopped_by_hand = 0, False
    return True


def go_on(engine: ContainerParts, containers: Iterable[Container]) -> None:
    """Schedule the next runs of containers that have ended while the engine was asleep, each after its delay."""
    for container in containers:
        schedule(engine, container)


def resume(engine: ContainerParts, containers: Iterable[Container]) -> None:
    """Start, one after the other and oldest first, the containers that an earlier daemon left to be started."""
    for container in containers:
        try:
            again(engine, container, container.exits)
        except Exception:  # one container's trouble must not keep the others from starting
            log.exception("container %s was not started again", container.id)

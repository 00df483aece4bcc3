"""Wait until a container is not running, until its next end, or until it is removed, for POST /containers/{id}/wait.

Runs in the API's threads. A wait goes on when the container's bell (an eventfd, see `record.Bell`) is readable, and
nothing else wakes it; a client's wait has no thread (see `Request.park`). As in dockerd, a wait for "not running" is
over at an end even if the restart policy starts the next run.

The monitor gets a copy of the client's connection, from the moment there is a monitor (see `entrusted`). Should this
daemon die, the monitor answers: at the end of the run, or when the next daemon has removed the container.
"""

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Generator

from engine.daemon.containers.record import Container, Entrusted
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass
from engine.wire.waits import Wait

log = logging.getLogger(__name__)

_numbers = itertools.count()
_TRIES = 1000
_TRY_SECONDS = 0.01

CONDITIONS = ("not-running", "next-exit", "removed")


@dataclass(frozen=True, slots=True)
class Waiter:
    """A client's wait; made before the response head is sent, so that an end in between is not missed."""

    container: Container
    condition: str
    exits_before: int
    running_before: bool

    def is_over(self) -> bool:
        """Whether there is nothing left to wait for; the caller holds `changed`."""
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

        sleep: returns when the descriptor it is given is readable, or raises what is to end the wait
        """
        with contextlib.closing(self.steps()) as steps:
            while True:
                try:
                    sleep(next(steps))
                except StopIteration as ended:
                    found: tuple[int, str] = ended.value
                    return found

    def steps(self) -> Generator[int, None, tuple[int, str]]:
        """The same for a caller that no thread waits for. It yields a descriptor each time: it is to go on when that is
        readable, or to be ended.
        """
        container = self.container
        while True:
            with container.changed:
                if self.is_over():
                    return self._told()
                bell = container.listen()
            try:
                yield bell.descriptor
            finally:
                with container.changed:
                    container.quit(bell)

    def _told(self) -> tuple[int, str]:
        container = self.container
        if not container.removed and self.running_before and container.exits != self.exits_before:
            return container.last_exit, ""  # the next run may have begun by now
        # As in dockerd, a removal that succeeded leaves no error. The client that called start got the start's failure
        # there.
        failed = container.state.exit_code and not container.removed
        return container.state.exit_code, container.state.error if failed else ""

    @property
    def is_lasting(self) -> bool:
        """Whether the awaited event comes without any daemon, or the next daemon is sure to bring it."""
        return self.condition != "removed" or self.container.host_config["AutoRemove"]

    def entrusted(
        self,
        engine: ContainerParts,
        descriptor: int,
        before: tuple[bytes, bytes, bytes],
        after: bytes,
        *,
        full_close: bool,
    ) -> "Keeping":
        """Have the monitor of the present run, or of the next, keep the client's connection too, until it is answered.

        The arguments are as in `Wait`. Returns a context manager.
        """
        return Keeping(engine, self, descriptor, (full_close, before, after))


class Keeping:
    """The time in which a monitor has a copy of a waiting client's connection.

    When it is left with an exception, the monitor keeps the copy: either the client has gone, which the monitor notices
    too, or this daemon is about to end. It is not a generator, since there may be a thousand of these.
    """

    __slots__ = ("_engine", "_one", "_waiter")

    def __init__(
        self,
        engine: ContainerParts,
        waiter: Waiter,
        descriptor: int,
        how: tuple[bool, tuple[bytes, bytes, bytes], bytes],
    ) -> None:
        self._engine, self._waiter = engine, waiter
        self._one = Entrusted(Wait(next(_numbers), waiter.condition == "removed", *how), descriptor)

    def __enter__(self) -> Callable[[], bool]:
        """Give the connection to the monitor; return the function that says whether a monitor has it now."""
        container, one = self._waiter.container, self._one
        with container.changed:
            if self._waiter.is_lasting and not self._waiter.is_over():
                container.entrusted[one.wait.number] = one
        entrust(self._engine, container, one)
        return self.held

    def __exit__(self, kind: type | None, *_: object) -> None:
        container, one = self._waiter.container, self._one
        with container.changed:
            container.entrusted.pop(one.wait.number, None)
        if kind is None and one.run is not None:
            self._engine.monitors.answered(container.id, one.wait.number)

    def held(self) -> bool:
        """Whether a monitor has the connection, and the run has not ended."""
        return self._one.run is not None and self._one.run == self._waiter.container.exits


def entrust(engine: ContainerParts, container: Container, one: Entrusted | None = None) -> None:
    """Give the connections of waiting clients, of one or all, to the running monitor, unless it has them."""
    for _ in range(_TRIES):
        with container.changed:
            if _entrust(engine, container, one):
                return
        time.sleep(_TRY_SECONDS)  # the monitor is busy; after ten seconds (`_TRIES`) it does without the rest
    log.warning("container %s: its monitor could not take over all waiting connections", container.id)


def _entrust(engine: ContainerParts, container: Container, one: Entrusted | None) -> bool:
    """False when there is more to give than the monitor takes now; the caller holds `changed`."""
    for number, each in container.entrusted.items() if one is None else ((one.wait.number, one),):
        if number not in container.entrusted or each.run == container.exits:
            continue
        try:
            if not engine.monitors.entrust(container.id, each.wait, each.descriptor):
                return True
        except BlockingIOError:
            return False
        each.run = container.exits
    return True


def subscribe(container: Container, condition: str) -> Waiter:
    """Begin a wait; condition: one of `CONDITIONS`."""
    with container.changed:
        return Waiter(container, condition, container.exits, container.state.running)

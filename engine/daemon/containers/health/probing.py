"""Run the health checks of running containers: schedule the next probe, run it, and record its result.

No thread waits here. The engine's schedule starts each probe, and the probe runs in a short-lived thread of its own,
one at a time for a container. `Container.probing` is the one `_Monitor` whose results count. It is read and replaced
under `Container.changed`, so a probe that ends after its container was paused, stopped or started anew changes nothing.
`verdicts` decides what a result means. Neither a start nor an end waits for a probe.
"""

import logging
import time

from engine.daemon import measured
from engine.daemon.clock import SECOND
from engine.daemon.containers.announce import announce
from engine.daemon.containers.health import verdicts
from engine.daemon.containers.health.verdicts import Check
from engine.daemon.containers.record import Container, Health, Probe
from engine.daemon.parts import HealthParts
from engine.daemon.runtime.background import later
from engine.daemon.runtime.schedule import Handle
from engine.errors import EngineError
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first exec or probe
    from engine.daemon.containers.exec import verbs as execution
else:
    execution = late("engine.daemon.containers.exec.verbs")

log = logging.getLogger(__name__)


def begin(engine: HealthParts, container: Container) -> None:
    """Start probing a container that was started, or that a new daemon has found running; its health is `starting`."""
    check = verdicts.check_of(container.config)
    if check is None:
        return
    with container.changed:
        container.state.health = verdicts.begun(container.state.health)
        _replace(container, _Monitor(engine, container, check))


def adopt(engine: HealthParts, container: Container) -> None:
    """Start probing a container that a new daemon has found alive, unless it is paused."""
    if container.state.status == "running":
        begin(engine, container)


def resume(engine: HealthParts, container: Container) -> None:
    """Start probing a container again after a pause; it stays `unhealthy` until a probe succeeds."""
    check = verdicts.check_of(container.config)
    if check is None:
        return
    with container.changed:
        _replace(container, _Monitor(engine, container, check))


def halt(container: Container) -> None:
    """Stop probing a container that is paused or has ended; the result of a probe that still runs does not count."""
    with container.changed:
        _replace(container, None)
        if container.state.health is not None:
            container.state.health = verdicts.halted(container.state.health)


def drop(container: Container) -> None:
    """Stop probing a container whose start has failed."""
    with container.changed:
        _replace(container, None)


def _replace(container: Container, monitor: "_Monitor | None") -> None:
    if container.probing is not None:
        container.probing.drop()
    container.probing = monitor
    if monitor is not None:
        monitor.schedule_next()


def _health(container: Container) -> Health:
    """The container's health; the caller holds `changed`. A container that is probed has one, from `begin` on."""
    health = container.state.health
    assert health is not None
    return health


class _Monitor:
    """The probes of one container, from a start (or the end of a pause) to the next end (or pause)."""

    __slots__ = ("_check", "_container", "_engine", "_next", "_started_ns")

    def __init__(self, engine: HealthParts, container: Container, check: Check) -> None:
        self._engine = engine
        self._container = container
        self._check = check
        self._started_ns = container.state.started_ns
        self._next: Handle | None = None

    def drop(self) -> None:
        """Begin no more probes."""
        if self._next is not None:
            self._next.cancel()

    def schedule_next(self) -> None:
        """Schedule the next probe, counted from now; the caller holds `changed`."""
        since_start_ns = time.time_ns() - self._started_ns
        delay_ns = verdicts.next_in_ns(_health(self._container), self._check, since_start_ns)
        self._next = self._engine.schedule.at(delay_ns / SECOND, later, self._probe)

    def _probe(self) -> None:
        container = self._container
        if container.probing is not self:
            return
        begun_ns = time.time_ns()
        exit_code, output = self._run()
        measured.count("health_checks")
        if exit_code:
            measured.count("health_checks_failed")
        probe = Probe(begun_ns, time.time_ns(), exit_code, output)
        with container.changed:
            if container.probing is not self:
                return
            before = _health(container)
            container.state.health = after = verdicts.judged(before, self._check, probe, self._started_ns)
            self.schedule_next()
            self._tell(before, after)

    def _run(self) -> tuple[int, str]:
        """Run the command in the container; its exit code, and its output as the log shows it."""
        check, config = self._check, self._container.config
        try:
            done = execution.run_captured(
                self._engine,
                self._container,
                list(check.command),
                user=config["User"],
                cwd=config["WorkingDir"],
                seconds=check.timeout_ns / SECOND,
                most=verdicts.MOST_OUTPUT + 1,  # one byte more shows that the output was longer
            )
        except EngineError as error:
            return verdicts.CUT_SHORT, str(error)
        except Exception as error:  # whatever it was, the next probe must still run
            log.exception("container %s: the probe of its health failed", self._container.id)
            return verdicts.CUT_SHORT, f"the probe could not be run: {reasons.whole(error)}"
        if done.timed_out or done.exit_code is None:
            return verdicts.CUT_SHORT, verdicts.overdue(check, done.output)
        return done.exit_code, verdicts.shown_output(done.output)

    def _tell(self, before: Health, after: Health) -> None:
        if before.status != after.status:
            announce(self._engine, self._container, f"health_status: {after.status}")

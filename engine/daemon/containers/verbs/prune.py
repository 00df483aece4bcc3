"""Remove every container that does not run and passes the filters, for POST /containers/prune."""

import logging
import time

from engine.daemon import locks
from engine.daemon.containers.record import Container
from engine.daemon.containers.verbs import remove
from engine.daemon.containers.verbs.inspect import measure
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass
from engine.errors import Conflict, EngineError, Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first filter of times, with datetime
    from engine.daemon import moments
else:
    moments = late("engine.daemon.moments")

log = logging.getLogger(__name__)

FILTERS = ("label", "label!", "until")
PATIENCE_SECONDS = 2.0  # for a container that is just being started: a slow one must not hold up the others
_running = locks.Lock("pruning of containers")


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chosen containers: with all of `labels` (name; value, None for any), not with all of `without`.

    until_ns: made at this time or before, in nanoseconds since the epoch; None for any time
    """

    labels: tuple[tuple[str, str | None], ...] = ()
    without: tuple[tuple[str, str | None], ...] = ()
    until_ns: int | None = None

    def __contains__(self, container: Container) -> bool:
        if self.until_ns is not None and container.created_ns > self.until_ns:
            return False
        own = container.config["Labels"] or {}
        return _all(own, self.labels) and not (self.without and _all(own, self.without))


def _all(own: dict[str, str], wanted: tuple[tuple[str, str | None], ...]) -> bool:
    return all(name in own and value in (None, own[name]) for name, value in wanted)


def compile_filters(filters: dict[str, tuple[str, ...]]) -> Chosen:
    """The meaning of the query's filters, whose names have been checked. Raises Invalid."""
    until = filters.get("until", ())
    if len(until) > 1:
        raise Invalid("more than one until filter specified")
    return Chosen(_labels(filters.get("label", ())), _labels(filters.get("label!", ())), _moment(until))


def _labels(values: tuple[str, ...]) -> tuple[tuple[str, str | None], ...]:
    parts = (value.partition("=") for value in values)
    return tuple((name, value if equals else None) for name, equals, value in parts)


def _moment(until: tuple[str, ...]) -> int | None:
    return moments.parse(until[0], time.time_ns()) if until else None


def prune(engine: ContainerParts, chosen: Chosen) -> tuple[list[str] | None, int]:
    """Remove the chosen containers; return the removed ids (None for none), and the bytes that these had written.

    A container that cannot be removed, as it is being started or another client removes it, is left out. Raises
    Conflict while another prune is under way.
    """
    if not _running.acquire(blocking=False):
        raise Conflict("a prune operation is already running")
    try:
        removed, reclaimed = _prune(engine, chosen)
    finally:
        _running.release()
    engine.events.publish("container", "prune", "", {"reclaimed": str(reclaimed)})
    return removed or None, reclaimed


def _prune(engine: ContainerParts, chosen: Chosen) -> tuple[list[str], int]:
    removed, reclaimed = [], 0
    for container in engine.containers.all():
        if container.snapshot().running or container not in chosen:
            continue
        try:
            written, _ = measure(engine, container)
            remove.remove(engine, container, force=False, volumes=False, patience=PATIENCE_SECONDS)
        except (EngineError, OSError) as error:
            log.warning("container %s was not pruned: %s", container.id, error)
            continue
        removed.append(container.id)
        reclaimed += written
    return removed, reclaimed

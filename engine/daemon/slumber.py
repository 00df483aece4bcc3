"""What a daemon that ends because it has nothing to do leaves to the next one, which goes on as if it had never ended.

It is one file in the exec root, `asleep`. The main thread writes it when all else is done (`idle`), reads it when the
next daemon starts, and removes it once that daemon serves its clients. It ends with the boot: a daemon that finds it
starts nothing anew for restart policies but what has ended meanwhile. So it names the boot, for an exec root on a disk.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping

from engine.daemon.containers.record import Container
from engine.daemon.runtime.events import KEPT, Event
from engine.dataclass import dataclass, field
from engine.errors import Invalid
from engine.wire import exitfile

log = logging.getLogger(__name__)

NAME = "asleep"
_BOOT = "/proc/sys/kernel/random/boot_id"
_LARGEST = 4 * 1024 * 1024
_EVENTS_LARGEST = 1024 * 1024
"""Bytes of events that are left, the last ones: an exec root is memory, and a label may be as long as a request."""


@dataclass(frozen=True, slots=True)
class Slumber:
    """What is left. events: those that were kept, oldest first

    held: ids of containers whose end a client has asked for, so that no restart policy starts them again
    delays: id → seconds that were waited before the present run of a container (see `life.policy`)
    """

    events: tuple[Event, ...] = ()
    held: frozenset[str] = frozenset()
    delays: Mapping[str, float] = field(default_factory=dict)


def save(exec_root: str, events: Iterable[Event], containers: Iterable[Container]) -> None:
    """Leave the file, in the place of an older one. Raises OSError."""
    alive = [each for each in containers if each.snapshot().alive]
    said = {
        "boot": _boot(),
        "events": _last(events),
        "held": [each.id for each in alive if each.held],
        "delays": {each.id: each.delay for each in alive if each.delay},
    }
    exitfile.write(exec_root, json.dumps(said).encode(), NAME)


def find(exec_root: str) -> Slumber | None:
    """What a daemon has left that fell asleep on this exec root since the boot; None for nothing."""
    try:
        with open(os.path.join(exec_root, NAME), "rb") as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    try:
        return _understood(text)
    except Invalid as error:
        log.warning("what the daemon that fell asleep has left cannot be used: %s", error)
        return None


def forget(exec_root: str) -> None:
    """Remove the file, if there is one."""
    try:
        os.unlink(os.path.join(exec_root, NAME))
    except FileNotFoundError:
        pass  # no daemon has fallen asleep


def _boot() -> str:
    with open(_BOOT) as file:
        return file.read().strip()


def _last(events: Iterable[Event]) -> list[list[object]]:
    """The last events as the file has them, oldest first."""
    left, size = [], 0
    for event in reversed([*events]):
        row = [event.kind, event.action, event.actor, event.attributes, event.time_ns]
        size += len(json.dumps(row))
        if size > _EVENTS_LARGEST:
            break
        left.append(row)
    return left[::-1]


def _understood(text: bytes) -> Slumber | None:
    """The content of the file; None for another boot's. Raises Invalid."""
    if len(text) > _LARGEST:
        raise Invalid("it is too large")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(str(error)) from error
    if not isinstance(said, dict):
        raise Invalid("not an object")
    if said.get("boot") != _boot():
        return None
    events, held, delays = said.get("events"), said.get("held"), said.get("delays")
    if not isinstance(events, list) or not isinstance(held, list) or not isinstance(delays, dict):
        raise Invalid("a part is missing")
    return Slumber(
        tuple(map(_event, events[-KEPT:])),
        frozenset(each for each in held if isinstance(each, str)),
        {name: seconds for name, seconds in delays.items() if isinstance(seconds, float | int)},
    )


def _event(row: object) -> Event:
    if not isinstance(row, list) or len(row) != 5:
        raise Invalid("an event has another form")
    kind, action, actor, attributes, time_ns = row
    if not all(isinstance(each, str) for each in (kind, action, actor)) or not isinstance(time_ns, int):
        raise Invalid("an event has another form")
    if not isinstance(attributes, dict) or not all(isinstance(each, str) for each in attributes.values()):
        raise Invalid("an event has attributes that are no text")
    return Event(kind, action, actor, attributes, time_ns)

"""The containers that a frontend has begun, by the ids that it gave them.

Any thread of the build may look; the lock is held for a look or a change.
"""

import threading

from engine.daemon.builder.interacting import Interactive
from engine.dataclass import dataclass
from engine.errors import Conflict, Invalid, NotFound

_MOST, _MOST_EVER = 32, 1000


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """One container. targets: of the mounts, in the order in which the frontend has named them"""

    container: Interactive
    targets: tuple[str, ...]


class Rooms:
    """Those of one frontend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Room] = {}
        self._left = _MOST_EVER

    def add(self, id: str, made: Room) -> None:
        """One more. Raises Conflict for an id that is taken, Invalid where there are too many."""
        with self._lock:
            if id in self._known:
                raise Conflict(f"Container {id} already exists")
            if len(self._known) >= _MOST or not self._left:
                raise Invalid(f"a frontend has at most {_MOST} containers at a time, and {_MOST_EVER} in all")
            self._left -= 1
            self._known[id] = made

    def find(self, id: str) -> Room:
        """The container of that id. Raises NotFound."""
        with self._lock:
            found = self._known.get(id)
        if found is None:
            raise NotFound(f'container "{id}" previously released or not created')
        return found

    def take(self, id: str) -> Room | None:
        """The container of that id, which is known no more; None for none."""
        with self._lock:
            return self._known.pop(id, None)

"""Keeps what was last shown of each container as bytes, for as long as all that it was made of is the same.

Used by the daemon's request threads. A row is found only by values that equal those that its bytes were made of. So
nobody has to tell of a change here, and none can be missed. The dicts of a container's record are among these values:
nothing changes them once a container owns them, a change puts another dict in their place. Whoever makes the bytes
makes them of one `Container.view`, and keeps them under the values of that view.
"""

from collections.abc import Callable

from engine.daemon import locks

Made = tuple[bytes, ...]
"""The bytes, in parts where something stands between them that depends on the time."""

_OWN = 600  # bytes of memory that a row takes beside its text, about: the values, which it shares with the record


class Kept:
    """What was shown of containers in one way, by their ids.

    room: bytes of memory at most; the row that was made first makes room for the next one
    known: whether there is a container with this id; nothing is kept of one that was removed meanwhile
    """

    def __init__(self, room: int, known: Callable[[str], bool]) -> None:
        self._room = room
        self._known = known
        self._lock = locks.Lock("kept answers")
        self._rows: dict[str, tuple[tuple[object, ...], Made]] = {}  # written under the lock; a row is never changed
        self._taken = 0  # bytes; under the lock

    def find(self, container_id: str, of: tuple[object, ...]) -> Made | None:
        """What was made of equal values; None if nothing is kept that was."""
        row = self._rows.get(container_id)
        return row[1] if row is not None and row[0] == of else None

    def keep(self, container_id: str, of: tuple[object, ...], made: Made) -> None:
        """Keep this instead of what was kept of the container."""
        size = _size(made)
        with self._lock:
            self._forget(container_id)
            if size > self._room or not self._known(container_id):
                return
            while self._taken + size > self._room:
                self._forget(next(iter(self._rows)))
            self._rows[container_id] = of, made
            self._taken += size

    def drop(self, container_id: str) -> None:
        """Forget a container that is known no more."""
        with self._lock:
            self._forget(container_id)

    @property
    def taken(self) -> int:
        """Bytes of memory that the rows take, about."""
        return self._taken

    def _forget(self, container_id: str) -> None:
        row = self._rows.pop(container_id, None)
        if row is not None:
            self._taken -= _size(row[1])


def _size(made: Made) -> int:
    return _OWN + sum(map(len, made))

"""Steps that some build makes at this moment, so that another build that needs the same waits instead of making it too.

All builds of the daemon share one table, by the identity of what is made. The lock is held for a look or a change. A
build that waits reads what the step's command writes, and tells its own client of it in its own thread: so no client
waits for another one's connection.
"""

import threading
from collections.abc import Callable

from engine.daemon.builder.graph.telling import Telling
from engine.errors import CommandFailed

_LOOK_SECONDS = 0.2
# Bytes of a command's output that are kept for those who come later.
_MOST_KEPT = 1 << 20

_changed = threading.Condition()
_making: dict[str, "Making"] = {}  # guarded by `_changed`, as are the fields of its values


class Making:
    """One step that is being made. failure: of its command, which others that wait have as well"""

    __slots__ = ("_size", "_written", "failure", "identity", "over")

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.over = False
        self.failure: CommandFailed | None = None
        self._written: list[tuple[bytes, bool]] = []
        self._size = 0

    def write(self, data: bytes, error: bool) -> None:
        """The step's command has written this."""
        with _changed:
            if self._size <= _MOST_KEPT:
                self._size += len(data)
                self._written.append((data, error))
                _changed.notify_all()

    def end(self, failure: CommandFailed | None = None) -> None:
        """The step is made, has failed, or was given up. Those who wait look again."""
        with _changed:
            self.over, self.failure = True, failure
            del _making[self.identity]
            _changed.notify_all()

    def follow(self, told: Telling, check: Callable[[], None]) -> None:
        """Wait for its end, and tell what its command writes. Raises its failure, and what `check` raises."""
        place = 0
        while True:
            with _changed:
                if place == len(self._written) and not self.over:
                    _changed.wait(_LOOK_SECONDS)
                found, over = self._written[place:], self.over
            check()
            place += len(found)
            for data, error in found:
                told.command(data, error)
            if over and not found:
                break
        if place:
            told.command_ended()
        if self.failure is not None:
            raise CommandFailed(str(self.failure), self.failure.code, self.failure.command)


def claim(identity: str) -> tuple[Making, bool]:
    """The making of that identity, and whether it is the caller's: then the caller makes the step and calls `end`."""
    with _changed:
        known = _making.get(identity)
        if known is not None:
            return known, False
        made = _making[identity] = Making(identity)
        return made, True


_PASSED_ON = ("cached", "command_ended", "note", "line", "downloading", "downloaded", "running", "removed")


class Copied(Telling):
    """A `Telling` that also keeps what a command writes for those who wait for the same step."""

    def __init__(self, told: Telling, making: Making) -> None:
        self._told, self._making = told, making
        vars(self).update({name: getattr(told, name) for name in _PASSED_ON})

    def command(self, data: bytes, error: bool) -> None:
        """What the command has written."""
        self._making.write(data, error)
        self._told.command(data, error)

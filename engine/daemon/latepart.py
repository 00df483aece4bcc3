"""A part of the daemon that is made when somebody first asks for it, with the modules that it needs.

Most daemons that start answer one question and fall asleep again, or wait for days. A part that is not asked for costs
neither time nor memory. Any thread may be the first to ask; the others wait under one lock until the part is whole.
"""

from collections.abc import Callable

from engine.annotating import Any, Generic, TypeVar
from engine.daemon import locks

T = TypeVar("T")
_making = locks.Reentrant("making a part")  # reentrant: a part may need another one to be made


class LatePart(Generic[T]):
    """An attribute of a class. make: makes the part for an instance, once, and may raise what the asker then gets."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, owner: object, _kind: type | None = None) -> T:
        # Python looks here only until the instance has an attribute of this name.
        with _making:
            found: T = vars(owner).get(self._name) or vars(owner).setdefault(self._name, self._make(owner))
            return found


def is_made(owner: object, name: str) -> bool:
    """Whether somebody has asked for this part."""
    return name in vars(owner)

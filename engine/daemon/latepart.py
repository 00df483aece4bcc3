"""A part of the daemon that is made when somebody first asks for it, with the modules that it needs.

Most daemons that start answer one question and fall asleep again, or wait for days. A part that is not asked for costs
neither time nor memory. Any thread may be the first to ask; the others wait under a lock until the part is whole. Each
part has a lock of its own: a thread that asks for one may hold a lock that the making of another one needs.
"""

from collections.abc import Callable

from engine.annotating import Any, Generic, TypeVar
from engine.daemon import locks

T = TypeVar("T")


class LatePart(Generic[T]):
    """An attribute of a class. make: makes the part for an instance, once, and may raise what the asker then gets."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = ""
        self._making = locks.Lock()

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name
        self._making = locks.Lock(f"making of {name}")

    def __get__(self, owner: object, _kind: type | None = None) -> T:
        # Python looks here only until the instance has an attribute of this name.
        with self._making:
            if self._name not in vars(owner):
                vars(owner)[self._name] = self._make(owner)
            found: T = vars(owner)[self._name]
            return found


def is_made(owner: object, name: str) -> bool:
    """Whether somebody has asked for this part."""
    return name in vars(owner)

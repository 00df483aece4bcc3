"""Regular expressions that are compiled at their first use, and not at the engine's start.

A daemon's modules have some fifty, each takes a fifth of a millisecond to compile, and the first answers need a few. A
type checker sees `re.compile`. What runs takes the same arguments, and has the methods of a compiled expression. Any
thread may be the first to use one; two that are compile it twice, which does no harm.
"""

import re

from engine.late import TYPE_CHECKING

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")
_waiting: set["_Regex"] = set()


class _Regex:
    """One expression. Its methods are those of the compiled one, from the first use of one of them on."""

    __slots__ = ("_expression", "_flags", *_METHODS)

    def __init__(self, expression: str | bytes, flags: int = 0) -> None:
        self._expression, self._flags = expression, flags
        _waiting.add(self)

    def __getattr__(self, name: str) -> object:
        if name not in _METHODS:
            raise AttributeError(name)
        self.settle()
        return getattr(self, name)

    def settle(self) -> None:
        """Compile it."""
        compiled = re.compile(self._expression, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        _waiting.discard(self)


def settle() -> None:
    """Compile what waits for a first use, for a process that forks others: each of them would do it anew."""
    for each in list(_waiting):
        each.settle()


if TYPE_CHECKING:
    from re import compile as regex

    __all__ = ["regex", "settle"]
else:
    regex = _Regex

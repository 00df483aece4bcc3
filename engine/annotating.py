"""The names of `typing` that annotations and bases of the engine's classes use, without the memory of that module.

A type checker sees `typing` itself. What runs are stand-ins that can do what an annotation needs while Python evaluates
it: be subscripted, and be joined with `|`. An idle daemon is half a megabyte smaller by them. A module that reads
annotations at run time imports `typing`, and no idle daemon loads it.
"""

from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any as Any
    from typing import Final as Final
    from typing import Generic as Generic
    from typing import Literal as Literal
    from typing import Protocol as Protocol
    from typing import Self as Self
    from typing import TypedDict as TypedDict
    from typing import TypeVar as TypeVar
    from typing import TypeVarTuple as TypeVarTuple
    from typing import cast as cast
else:

    class _Form:
        """Stands for any type in an annotation."""

        __slots__ = ()

        def __call__(self, *_of: object, **_how: object) -> "_Form":
            return self

        def __getitem__(self, _parameters: object) -> "_Form":
            return self

        def __iter__(self) -> object:
            yield self  # `*Given` of a TypeVarTuple

        def __or__(self, _other: object) -> "_Form":
            return self

        __ror__ = __or__

    Any = Final = Literal = Self = TypeVar = TypeVarTuple = _Form()

    class Protocol:
        """A base that adds nothing."""

        __slots__ = ()

        def __class_getitem__(cls, _parameters: object) -> type:
            return cls

    Generic = Protocol

    class TypedDict(dict):
        """A base for tables of fields, whose instances are plain dicts to a type checker."""

        def __init_subclass__(cls, total: bool = True) -> None:
            """Takes what a type checker reads."""

    def cast(_kind: object, value: object) -> object:
        """The value as it is."""
        return value

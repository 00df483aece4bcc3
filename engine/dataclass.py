"""Dataclasses that cost an eighth of the standard library's at import, which the engine pays at each start.

A type checker sees `dataclasses` itself. What runs does the same for what the engine uses of it, and knows nothing
else. The standard library compiles some five functions for each class. Here all classes share theirs, and only
`__init__` is compiled, when the class makes its first object: a daemon has 78 classes at its start and uses a few of
them, and each takes a fifth of a millisecond. Neither `dataclasses` nor `inspect` is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr

from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_MISSING: Any = object()
_FIELDS, _KEY = "__engine_fields__", "__engine_key__"
_INSTEAD = frozenset(("__dict__", "__weakref__"))  # what a class with slots has none of
_waiting: dict[Any, Callable[[], object]] = {}  # class → what compiles its `__init__`; any thread may be the first


class _Field:
    """One field.

    type: its annotation; default, factory: `_MISSING` for none; repr, compare: whether it is part of that
    kw_only: it is given by its name alone
    """

    __slots__ = ("compare", "default", "factory", "kw_only", "name", "repr", "type")

    def __init__(self, default: object, factory: Callable[[], object], repr: bool, compare: bool) -> None:
        self.name, self.type, self.kw_only = "", _MISSING, False
        self.default, self.factory, self.repr, self.compare = default, factory, repr, compare


def _field(
    *,
    default: object = _MISSING,
    default_factory: Callable[[], object] = _MISSING,
    repr: bool = True,
    compare: bool = True,
) -> _Field:
    return _Field(default, default_factory, repr, compare)


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    def made(plain: type) -> Any:
        return _made(plain, frozen, slots, eq, repr, kw_only)

    return made if cls is None else made(cls)


def _fields(of: Any) -> tuple[_Field, ...]:
    return tuple(getattr(of, _FIELDS).values())


def _is_dataclass(of: Any) -> bool:
    return hasattr(of, _FIELDS)


def _replace(of: Any, /, **changes: object) -> Any:
    for name in getattr(of, _FIELDS):
        if name not in changes:
            changes[name] = getattr(of, name)
    return of.__class__(**changes)


def _asdict(of: Any) -> dict[str, Any]:
    return {name: _plain(getattr(of, name)) for name in getattr(of, _FIELDS)}


def _plain(value: Any) -> Any:
    """A value of a field with dicts in the place of dataclasses."""
    if _is_dataclass(value):
        return _asdict(value)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(each) for key, each in value.items()}
    return value


def _made(plain: Any, frozen: bool, slots: bool, eq: bool, repr: bool, kw_only: bool) -> Any:
    own = _own(plain, kw_only)
    known: dict[str, _Field] = {}
    for base in reversed(plain.__mro__[1:]):
        known.update(getattr(base, _FIELDS, {}))
    known.update(own)
    for name, each in own.items():
        if isinstance(plain.__dict__.get(name), _Field):
            delattr(plain, name)
            if each.default is not _MISSING:
                setattr(plain, name, each.default)
    cls = _slotted(plain, own, known) if slots else plain
    setattr(cls, _FIELDS, known)
    methods: dict[str, object] = {
        "__match_args__": tuple(name for name, each in known.items() if not each.kw_only),
    }
    if "__init__" not in cls.__dict__:
        cls.__init__ = _first(cls, known, frozen)
    if repr:
        methods["__repr__"] = _repr
    if eq:
        setattr(cls, _KEY, _key([name for name, each in known.items() if each.compare]))
        methods["__eq__"] = _eq
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refuse, _refuse
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _take_state}
    for name, method in methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    if eq and cls.__dict__.get("__hash__") is None:  # Python itself puts None there beside an `__eq__`
        cls.__hash__ = _hash if frozen else None
    return cls


def _own(plain: Any, kw_only: bool) -> dict[str, _Field]:
    """The fields that a class itself declares."""
    found = {}
    for name, kind in plain.__annotations__.items():
        if "ClassVar" in (kind if isinstance(kind, str) else getattr(kind, "__qualname__", str(kind))):
            continue
        default = plain.__dict__.get(name, _MISSING)
        each = default if isinstance(default, _Field) else _Field(default, _MISSING, True, True)
        each.name, each.type, each.kw_only = name, kind, kw_only
        found[name] = each
    return found


def _slotted(plain: Any, own: dict[str, _Field], known: dict[str, _Field]) -> Any:
    """The class once more, with a slot for each field of its own."""
    taken = {name for base in plain.__mro__[1:] for name in getattr(base, "__slots__", ())}
    body = {name: value for name, value in vars(plain).items() if name not in known and name not in _INSTEAD}
    body["__slots__"] = tuple(name for name in own if name not in taken)
    cls = type(plain)(plain.__name__, plain.__bases__, body)
    cls.__qualname__ = plain.__qualname__
    return cls


def settle() -> None:
    """Compile what waits for a first object, for a process that forks others: each of them would do it anew."""
    for compiled in list(_waiting.values()):
        compiled()


def _first(cls: Any, known: dict[str, _Field], frozen: bool) -> object:
    """An `__init__` that puts the compiled one in its own place. Two threads may compile the same at once."""

    def compiled() -> Any:
        cls.__init__ = made = _init(cls, known, frozen)
        _waiting.pop(cls, None)
        return made

    def __init__(self: Any, /, *given: object, **named: object) -> None:
        compiled()(self, *given, **named)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    _waiting[cls] = compiled
    return __init__


def _init(cls: Any, known: dict[str, _Field], frozen: bool) -> object:
    """`__init__`, which takes the fields in order, and behind them those that are given by name."""
    space: dict[str, Any] = {"_missing": _MISSING, "_set": object.__setattr__}
    asked, steps = ["self"], []
    for name, each in sorted(known.items(), key=lambda item: item[1].kw_only):
        if each.kw_only and "*" not in asked:
            asked.append("*")
        value = name
        if each.factory is not _MISSING:
            space[f"_make_{name}"] = each.factory
            asked.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif each.default is not _MISSING:
            space[f"_default_{name}"] = each.default
            asked.append(f"{name}=_default_{name}")
        else:
            asked.append(name)
        steps.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        steps.append("self.__post_init__()")
    exec(f"def __init__({', '.join(asked)}):\n " + "\n ".join(steps or ["pass"]), space)
    made = space["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _key(names: list[str]) -> Callable[[Any], object]:
    """What decides whether two of a class are equal."""
    return attrgetter(*names) if names else _nothing


def _nothing(_of: object) -> object:
    return ()


def _eq(self: Any, other: Any) -> object:
    if other.__class__ is not self.__class__:
        return NotImplemented
    key: Callable[[object], object] = getattr(self.__class__, _KEY)
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(getattr(self.__class__, _KEY)(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, each in getattr(self, _FIELDS).items() if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _state(self: Any) -> list[object]:
    """What pickle and copy keep of one that is frozen and has slots."""
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _take_state(self: Any, state: list[object]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)


def _refuse(self: Any, name: str, *_value: object) -> None:
    raise AttributeError(f"cannot assign to field {name!r} of a frozen {self.__class__.__qualname__}")


if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace

    __all__ = ["asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]
else:
    asdict, dataclass, field, fields, is_dataclass, replace = (
        *(_asdict, _dataclass, _field, _fields, _is_dataclass, _replace),
    )

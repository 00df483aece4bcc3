"""The engine's dataclasses against those of the standard library: both make the same of the same declarations."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pytest

from engine import dataclass as ours
from tests.unit import test_late_imports

T = TypeVar("T")
Library = Any


class Plain:
    """Fields with and without a default."""

    first: int
    second: str = "b"
    third: "list[int] | None" = None


class Made:
    """Fields with factories, and ones that are left out of repr or comparison."""

    kind: ClassVar[str] = "a kind"
    every: ClassVar = 3
    items: list[int]
    names: dict[str, int]
    secret: str
    beside: int


class After:
    """A class with a step after its making, and methods of its own."""

    number: int
    doubled: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "doubled", 2 * self.number)

    def total(self) -> int:
        """Both."""
        return self.number + self.doubled

    def __str__(self) -> str:
        return "after"


class Chosen:
    """A class with an equality of its own."""

    number: int

    def __eq__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "chosen"


class Kept(Generic[T]):
    """A class with a parameter."""

    value: T


class Spoken(Protocol):
    """What another class is to be able to."""

    def speak(self) -> str: ...


class Speaking(Spoken):
    """A child of a protocol."""

    words: str

    def speak(self) -> str:
        return self.words


class Empty:
    """A class without a field."""


def declared(library: Library, plain: type, **flags: bool) -> type:
    """The dataclass that a library makes of a class of this module, the same each time."""
    body = {key: value for key, value in vars(plain).items() if key not in ("__dict__", "__weakref__")}
    if plain is Made:
        body |= {"items": library.field(default_factory=list), "names": library.field(default_factory=dict)}
        body |= {"secret": library.field(default="s", repr=False), "beside": library.field(default=0, compare=False)}
    bases = getattr(plain, "__orig_bases__", plain.__bases__)
    if any(base is not object for base in bases):
        made = type(plain)(plain.__name__, plain.__bases__, body)
    else:
        made = type(plain.__name__, (), body)
    made.__qualname__ = plain.__qualname__
    return library.dataclass(made, **flags) if not flags else library.dataclass(**flags)(made)


CALLS: dict[type, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    Plain: [
        ((1,), {}),
        ((1, "c"), {}),
        ((), {"first": 2, "third": [3]}),
        ((), {}),
        ((1, 2, 3, 4), {}),
        ((1,), {"x": 1}),
    ],
    Made: [((), {}), (([1], {"a": 1}), {}), ((), {"secret": "t"}), ((), {"beside": 5}), (([1],), {"items": []})],
    After: [((1,), {}), ((1, 7), {}), ((2,), {})],
    Chosen: [((1,), {}), ((2,), {})],
    Kept: [((1,), {}), (("a",), {})],
    Speaking: [(("hello",), {}), ((), {})],
    Empty: [((), {}), ((1,), {})],
}
FLAGS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"slots": True, "eq": False},
    {"slots": True, "repr": False, "eq": False},
    {"frozen": True, "kw_only": True},
]


def outcome(step: Callable[[], object]) -> object:
    """What a step gives; of an error its type."""
    try:
        return step()
    except (TypeError, AttributeError, KeyError) as error:
        return AttributeError if isinstance(error, AttributeError) else type(error)


def refused(step: Callable[[], object]) -> bool:
    """Whether a step is refused; the library has a fault where a class has slots and is frozen, and says TypeError."""
    return outcome(step) in (AttributeError, TypeError)


def observed(library: Library, plain: type, flags: dict[str, bool]) -> list[object]:
    """All that can be seen of the class that a library makes."""
    made = declared(library, plain, **flags)
    seen: list[object] = [
        [(each.name, each.type) for each in library.fields(made)],
        getattr(made, "__match_args__", None),
        made.__dict__.get("__slots__"),
        made.__doc__,
        library.is_dataclass(made),
        [name for name in ("__eq__", "__hash__", "__repr__") if made.__dict__.get(name, 0) is None],
    ]
    instances = []
    for given, named in CALLS[plain]:
        one = outcome(lambda given=given, named=named: made(*given, **named))
        seen.append(one if isinstance(one, type) else repr(one).split(" at 0x")[0])
        if not isinstance(one, type):
            instances.append(one)
    for one in instances:
        names = [each.name for each in library.fields(one)]
        seen += (
            [one == other for other in (*instances, object(), library.replace(one))] if flags.get("eq", True) else []
        )
        seen.append(outcome(lambda one=one: hash(one) is not None))
        seen.append(outcome(lambda one=one: hash(one) == hash(library.replace(one))))
        seen += [[getattr(one, name) for name in names], library.asdict(one), hasattr(one, "__dict__")]
        seen += [refused(lambda one=one, name=name: setattr(one, name, 9)) for name in (*names[:1], "unknown")]
        seen += [outcome(lambda one=one, name=name: getattr(one, name)) for name in names]
        seen.append(refused(lambda one=one: delattr(one, "unknown")))
        seen += [outcome(lambda one=one: one.total()), outcome(lambda one=one: one.speak())]
    return seen


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(f"{key}={flags[key]}" for key in flags) or "plain")
@pytest.mark.parametrize("plain", CALLS, ids=lambda plain: plain.__name__)
def test_both_make_the_same(plain: type, flags: dict[str, bool]) -> None:
    assert observed(ours, plain, flags) == observed(dataclasses, plain, flags)


def test_what_is_given_by_name_comes_behind_what_a_parent_takes_in_order() -> None:
    def pair(library: Library) -> type:
        parent = library.dataclass(frozen=True)(type("Parent", (), {"__annotations__": {"a": "int", "b": "int"}}))
        body = {"__annotations__": {"c": "int"}}
        return library.dataclass(frozen=True, slots=True, kw_only=True)(type("Child", (parent,), body))

    for library in (ours, dataclasses):
        made = pair(library)
        assert repr(made(1, 2, c=3)).endswith("Child(a=1, b=2, c=3)")
        assert made.__match_args__ == ("a", "b")
        with pytest.raises(TypeError):
            made(1, 2, 3)


@ours.dataclass(frozen=True, slots=True)
class Frozen:
    """One that a process can send to another."""

    first: int
    second: list[int] = ours.field(default_factory=list)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_one_that_is_frozen_and_has_slots_can_be_copied(again: Callable[[Frozen], Frozen]) -> None:
    assert again(Frozen(1, [2])) == Frozen(1, [2])


@pytest.mark.parametrize("slots", [False, True])
def test_a_child_has_its_parents_fields_first(slots: bool) -> None:
    def pair(library: Library) -> type:
        parent = library.dataclass(frozen=True, slots=slots)(type("Parent", (), {"__annotations__": {"a": "int"}}))
        body = {"__annotations__": {"b": "int", "c": "int"}, "c": 3}
        return library.dataclass(frozen=True, slots=slots)(type("Child", (parent,), body))

    shown = [repr(pair(library)(1, b=2)).replace(" ", "") for library in (ours, dataclasses)]
    assert shown[0] == shown[1]
    assert [each.name for each in ours.fields(pair(ours))] == ["a", "b", "c"]


def test_one_that_holds_itself_can_be_shown() -> None:
    made = declared(ours, Plain)(1)
    made.third = made
    assert "..." in repr(made)


def test_factories_make_one_for_each() -> None:
    made = declared(ours, Made)
    assert made().items is not made().items


def test_the_signature_is_that_of_the_fields_once_an_object_was_made() -> None:
    made = declared(ours, Plain)
    made("a")
    assert str(inspect.signature(made)).startswith("(first, second='b', third=None)")


def test_an_idle_daemon_has_neither_module() -> None:
    assert test_late_imports.said("import sys; print({'dataclasses', 'inspect'} & set(sys.modules))") == "set()"


def test_what_makes_the_first_object_is_compiled_then_or_by_settle() -> None:
    one, two = declared(ours, Plain), declared(ours, Plain)
    before = one.__init__
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        one()
    assert one.__init__ is not before
    assert one("a") == one("a", "b", third=None)
    before = two.__init__
    ours.settle()
    after = two.__init__
    assert after is not before
    two("a")
    assert two.__init__ is after
    ours.settle()
    assert two.__init__ is after


def test_threads_that_make_the_first_object_at_once_make_the_same() -> None:
    made = declared(ours, Plain)
    with ThreadPoolExecutor(8) as threads:
        objects = list(threads.map(made, ["a"] * 8))
    assert objects == [made("a")] * 8

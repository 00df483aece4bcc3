"""protobuf's binary form (protobuf.dev, "Encoding") of messages that are declared as TypedDicts.

Pure. The declaration of a message is its table: each key names its number, and the kind of its number where the type
does not say it. Kinds that no message of this engine has (fixed, zigzag, float, groups) are not known, and passed over
where a table does not name their field:

    class Vertex(TypedDict):
        digest: Annotated[str, 1]
        inputs: Annotated[list[str], 2]
        cached: Annotated[bool, 4]
        started: Annotated[Timestamp | None, 5]
        weight: Annotated[int, 9, UNSIGNED]

What is decoded has every key: a number, text or flag that was not sent is 0, empty or False, a message is None. What is
encoded need not have them all. Fields that a table does not know are passed over, as protobuf asks. What a peer sends
is hostile: it is bounded by its own length, and by how deep messages may lie in each other.
"""

import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from engine.dataclass import dataclass
from engine.errors import Invalid

UNSIGNED = "unsigned"
"""The kind of uint32 and uint64. A number without a kind is an int32, an int64 or an enum."""

Message = TypeVar("Message")

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_LONGEST = 10  # bytes of a varint
_DEEPEST = 100
_MOST_VALUES = 500_000  # of one message and all that is in it
_KEYS_EACH = 4  # keys of a message that count as one value
_FIRST_WRONG = 1 << 29  # number of a field
_ALL = (1 << 64) - 1
_SIGN = 1 << 63


@dataclass(slots=True)
class _Bounds:
    """What one reading may still take. left: values; depth: of messages in each other

    A message has all its keys as soon as it is there, so two bytes may become a hundred times as much. It counts as a
    value for some of its keys each.
    """

    left: int = _MOST_VALUES
    depth: int = 0

    def take(self, count: int = 1) -> None:
        """So many more values."""
        self.left -= count
        if self.left < 0:
            raise Invalid("protobuf: too many values")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one value is written. wire: its wire type; zero: what is meant where it is missing

    write: the value as bytes, without a tag or length; read: the value of such bytes, or of a number that was read
    """

    wire: int
    zero: object
    write: Callable[[Any], bytes]
    read: Callable[[Any, "_Bounds"], object]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message. shape: `one`, `list` or `map`"""

    name: str
    number: int
    shape: str
    kind: _Kind


@dataclass(frozen=True, slots=True)
class _Table:
    """The fields of a message by their numbers. zeros: what is meant where none is sent; several: lists and maps"""

    fields: dict[int, _Field]
    zeros: dict[str, object]
    several: tuple[tuple[str, type], ...]

    def nothing(self) -> dict[str, Any]:
        """A message in which nothing was sent."""
        found = self.zeros.copy()
        for name, kind in self.several:
            found[name] = kind()
        return found


_KINDS = {"list": list, "map": dict}


def _tabled(fields: dict[int, _Field]) -> _Table:
    several = tuple((field.name, _KINDS[field.shape]) for field in fields.values() if field.shape != "one")
    return _Table(fields, {field.name: field.kind.zero for field in fields.values()}, several)


@functools.cache
def _table(message: type) -> _Table:
    """The fields of a message, read from its declaration."""
    found = {}
    for name, hint in typing.get_type_hints(message, include_extras=True).items():
        declared, number, *more = typing.get_args(hint)
        shape, of = "one", declared
        if typing.get_origin(declared) is list:
            shape, of = "list", typing.get_args(declared)[0]
        elif typing.get_origin(declared) is dict:
            shape, of = "map", declared
        kind = _entry(*typing.get_args(of)) if shape == "map" else _kind(of, more[0] if more else "")
        found[number] = _Field(name, number, shape, kind)
    return _tabled(found)


@functools.cache
def _kind(of: Any, number: str) -> _Kind:
    if isinstance(of, types.UnionType):  # `X | None`
        of = next(each for each in typing.get_args(of) if each is not types.NoneType)
    if of is bool:
        return _Kind(_VARINT, False, lambda value: _varint(int(value)), lambda number, _: bool(number))
    if of is int and number == UNSIGNED:
        return _Kind(_VARINT, 0, _varint, lambda number, _: number)
    if of is int:
        return _Kind(_VARINT, 0, lambda value: _varint(value & _ALL), lambda number, _: _signed(number))
    if of is str:
        return _Kind(_LENGTH, "", lambda value: value.encode("utf-8", "replace"), lambda data, _: _text(data))
    if of is bytes:
        return _Kind(_LENGTH, b"", bytes, lambda data, _: data)
    return _Kind(_LENGTH, None, lambda value: encode(of, value), lambda data, bounds: _decode(of, data, bounds))


@functools.cache
def _entry(key: Any, value: Any) -> _Kind:
    """An entry of a map, which is a message of a key (1) and a value (2)."""
    fields = {1: _Field("key", 1, "one", _kind(key, "")), 2: _Field("value", 2, "one", _kind(value, ""))}

    def write(entry: tuple[object, object]) -> bytes:
        return b"".join(_tagged(fields[number], each) for number, each in enumerate(entry, 1))  # zeros too

    table = _tabled(fields)

    def read(data: bytes, bounds: _Bounds) -> object:
        found = _read(table, data, bounds)
        return found["key"], found["value"]

    return _Kind(_LENGTH, None, write, read)


def encode(message: type, value: Mapping[str, object]) -> bytes:
    """A message in its binary form. What is 0, empty or None is left out, as protobuf 3 does."""
    return _written(_table(message).fields, value)


def _written(fields: dict[int, _Field], value: Mapping[str, object]) -> bytes:
    made = bytearray()
    for field in fields.values():
        given: Any = value.get(field.name)
        if given is None:
            continue
        if field.shape == "one":
            if given != field.kind.zero or field.kind.zero is None:
                made += _tagged(field, given)
        elif field.shape == "list" and field.kind.wire != _LENGTH and given:
            packed = b"".join(map(field.kind.write, given))
            made += _varint(field.number << 3 | _LENGTH) + _varint(len(packed)) + packed
        else:
            for each in given.items() if field.shape == "map" else given:
                made += _tagged(field, each)
    return bytes(made)


def _tagged(field: _Field, value: object) -> bytes:
    data = field.kind.write(value)
    head = _varint(field.number << 3 | field.kind.wire)
    return head + _varint(len(data)) + data if field.kind.wire == _LENGTH else head + data


def decode(message: type[Message], data: bytes) -> Message:
    """The message of these bytes. Raises Invalid."""
    return cast(Message, _decode(message, data, _Bounds()))


def _decode(message: Any, data: bytes, bounds: _Bounds) -> dict[str, object]:
    return _read(_table(message), data, bounds)


def _read(table: _Table, data: bytes, bounds: _Bounds) -> dict[str, object]:
    bounds.depth += 1
    if bounds.depth > _DEEPEST:
        raise Invalid("protobuf: messages lie too deep in each other")
    bounds.take((len(table.zeros) + len(table.several)) // _KEYS_EACH)
    found, fields = table.nothing(), table.fields
    place, end = 0, len(data)
    while place < end:
        bounds.take()
        tag = data[place]
        place += 1
        if tag >= 0x80:  # most tags and lengths are one byte, and there are a million of them in a large context
            tag, place = _varint_at(data, place - 1)
        wire, field = tag & 7, fields.get(tag >> 3)
        value, place = _piece(data, place, end, wire)
        if not 0 < tag >> 3 < _FIRST_WRONG:
            raise Invalid("protobuf: a field without a number")
        if field is None:
            continue
        kind = field.kind
        if field.shape == "list" and wire == _LENGTH != kind.wire:
            found[field.name] += [kind.read(each, bounds) for each in _unpacked(value, kind.wire, bounds)]
        elif wire != kind.wire:
            raise Invalid(f"protobuf: the field {field.name} has another type")
        elif field.shape == "one":
            found[field.name] = kind.read(value, bounds)
        elif field.shape == "list":
            found[field.name].append(kind.read(value, bounds))
        else:
            key, entry = cast("tuple[object, object]", kind.read(value, bounds))
            found[field.name][key] = entry
    bounds.depth -= 1
    return found


def _piece(data: bytes, place: int, end: int, wire: int) -> tuple[Any, int]:
    """One value, which is a number or bytes, and the place behind it."""
    if wire == _VARINT:
        return _varint_at(data, place)
    if wire == _LENGTH:
        if place < end and data[place] < 0x80:
            length = data[place]
            place += 1
        else:
            length, place = _varint_at(data, place)
    elif wire in (_FOUR, _EIGHT):
        length = 4 if wire == _FOUR else 8
    else:  # groups, which are no part of protobuf 3
        raise Invalid("protobuf: a field of an unknown type")
    if length > end - place:
        raise Invalid("protobuf: a field is cut")
    return data[place : place + length], place + length


def _unpacked(data: bytes, wire: int, bounds: _Bounds) -> list[Any]:
    """The values of a packed list."""
    pieces, place = [], 0
    while place < len(data):
        bounds.take()
        piece, place = _piece(data, place, len(data), wire)
        pieces.append(piece)
    return pieces


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _varint_at(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 7 * _LONGEST, 7):
        if place >= len(data):
            raise Invalid("protobuf: a number is cut")
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _ALL, place
    raise Invalid("protobuf: a number has no end")


def _signed(number: int) -> int:
    return number - 2 * _SIGN if number & _SIGN else number


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid("protobuf: a text is not UTF-8") from error

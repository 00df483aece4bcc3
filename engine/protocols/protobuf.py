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
_FIRST_WRONG = 1 << 29  # number of a field
_ALL = (1 << 64) - 1
_SIGN = 1 << 63


@dataclass(slots=True)
class _Bounds:
    """What one reading may still take. left: values; depth: of messages in each other"""

    left: int = _MOST_VALUES
    depth: int = 0

    def take(self) -> None:
        """One more value."""
        self.left -= 1
        if self.left < 0:
            raise Invalid("protobuf: too many values")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one value is written. wire: its wire type; zero: what is meant where it is missing

    write: the value as bytes, without a tag or length; read: the value of such bytes, at this depth
    """

    wire: int
    zero: object
    write: Callable[[Any], bytes]
    read: Callable[[bytes, "_Bounds"], object]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message. shape: `one`, `list` or `map`"""

    name: str
    number: int
    shape: str
    kind: _Kind


@functools.cache
def _table(message: type) -> dict[int, _Field]:
    """The fields of a message by their numbers, read from its declaration."""
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
    return found


@functools.cache
def _kind(of: Any, number: str) -> _Kind:
    if isinstance(of, types.UnionType):  # `X | None`
        of = next(each for each in typing.get_args(of) if each is not types.NoneType)
    if of is bool:
        return _Kind(_VARINT, False, lambda value: _varint(int(value)), lambda data, _: bool(_unsigned(data)))
    if of is int and number == UNSIGNED:
        return _Kind(_VARINT, 0, _varint, lambda data, _: _unsigned(data))
    if of is int:
        return _Kind(_VARINT, 0, lambda value: _varint(value & _ALL), _read_signed)
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

    def read(data: bytes, bounds: _Bounds) -> object:
        found = _read(fields, data, bounds)
        return found["key"], found["value"]

    return _Kind(_LENGTH, None, write, read)


def encode(message: type, value: Mapping[str, object]) -> bytes:
    """A message in its binary form. What is 0, empty or None is left out, as protobuf 3 does."""
    return _written(_table(message), value)


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


def _read(fields: dict[int, _Field], data: bytes, bounds: _Bounds) -> dict[str, object]:
    bounds.depth += 1
    if bounds.depth > _DEEPEST:
        raise Invalid("protobuf: messages lie too deep in each other")
    found: dict[str, Any] = {
        field.name: [] if field.shape == "list" else {} if field.shape == "map" else field.kind.zero
        for field in fields.values()
    }
    place = 0
    while place < len(data):
        bounds.take()
        tag, place = _varint_at(data, place)
        number, wire = tag >> 3, tag & 7
        piece, place = _piece(data, place, wire)
        field = fields.get(number)
        if not 0 < number < _FIRST_WRONG:
            raise Invalid("protobuf: a field without a number")
        if field is None:
            continue
        kind = field.kind
        if field.shape == "list" and wire == _LENGTH != kind.wire:
            found[field.name] += [kind.read(each, bounds) for each in _unpacked(piece, kind.wire, bounds)]
        elif wire != kind.wire:
            raise Invalid(f"protobuf: the field {field.name} has another type")
        elif field.shape == "one":
            found[field.name] = kind.read(piece, bounds)
        elif field.shape == "list":
            found[field.name].append(kind.read(piece, bounds))
        else:
            key, value = cast("tuple[object, object]", kind.read(piece, bounds))
            found[field.name][key] = value
    bounds.depth -= 1
    return found


def _piece(data: bytes, place: int, wire: int) -> tuple[bytes, int]:
    """The bytes of one value, and the place behind them."""
    if wire == _VARINT:
        _, end = _varint_at(data, place)
        return data[place:end], end
    if wire == _LENGTH:
        length, place = _varint_at(data, place)
    elif wire in (_FOUR, _EIGHT):
        length = 4 if wire == _FOUR else 8
    else:  # groups, which are no part of protobuf 3
        raise Invalid("protobuf: a field of an unknown type")
    if length > len(data) - place:
        raise Invalid("protobuf: a field is cut")
    return data[place : place + length], place + length


def _unpacked(data: bytes, wire: int, bounds: _Bounds) -> list[bytes]:
    """The values of a packed list."""
    pieces, place = [], 0
    while place < len(data):
        bounds.take()
        piece, place = _piece(data, place, wire)
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


def _unsigned(data: bytes) -> int:
    return _varint_at(data, 0)[0]


def _read_signed(data: bytes, _: object) -> int:
    number = _unsigned(data)
    return number - 2 * _SIGN if number & _SIGN else number


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid("protobuf: a text is not UTF-8") from error

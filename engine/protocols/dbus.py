"""Encodes and decodes D-Bus messages, the wire format of systemd's manager (D-Bus Specification 0.43, "Message
Protocol").

Bytes in, values out; it touches no descriptor. A peer's bytes are refused (Invalid) where they break the format: a
message is at most `LARGEST` bytes, containers are nested at most 64 deep, and no byte is left over. Messages are
encoded in little endian and decoded in both orders. The type `h` (a descriptor) is refused, because nothing here
passes descriptors. The daemon imports this only when it talks to systemd.

Values by type: `y n q i u x t` int, `b` bool, `d` float, `s o g` str, `v` Variant, `ay` bytes, another array a list, an
array of dict entries a dict, a struct a tuple.
"""

import re
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from engine.dataclass import dataclass
from engine.errors import Invalid

CALL, RETURN, ERROR, SIGNAL = 1, 2, 3, 4
"""The types of a message."""
LARGEST = 1 << 20
"""Bytes of the largest message that is read or written here; the format itself allows 128 MiB."""
START = 16
"""Bytes of a message from which `size` tells how long it is."""

_DEEPEST = 64
_DEEPEST_TYPE = 32  # of arrays and of structs, each
_LONGEST_SIGNATURE = 255
_LONGEST_NAME = 255
_VERSION = 1
_ORDERS = {ord("l"): "<", ord("B"): ">"}
_NUMBERS = {"y": "B", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "d": "d", "b": "I"}
_ALIGNMENTS = {**{code: struct.calcsize("=" + form) for code, form in _NUMBERS.items()}}
_ALIGNMENTS |= {"s": 4, "o": 4, "g": 1, "v": 1, "a": 4, "(": 8, "{": 8}
_BASIC = frozenset(_NUMBERS) | frozenset("sog")
_PATH = re.compile(r"/|(/[A-Za-z0-9_]+)+")
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTERFACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")
_BUS_NAME = re.compile(r":[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+|[A-Za-z_-][A-Za-z0-9_-]*(\.[A-Za-z_-][A-Za-z0-9_-]*)+")

# Code of a header field → its type, its name in `Message`, and the form of its text.
_FIELDS: dict[int, tuple[str, str, re.Pattern[str] | None]] = {
    1: ("o", "path", None),
    2: ("s", "interface", _INTERFACE),
    3: ("s", "member", _MEMBER),
    4: ("s", "error", _INTERFACE),
    5: ("u", "reply_to", None),
    6: ("s", "destination", _BUS_NAME),
    7: ("s", "sender", _BUS_NAME),
    8: ("g", "signature", None),
}
_DESCRIPTORS = 9
_NEEDED = {CALL: ("path", "member"), RETURN: ("reply_to",), ERROR: ("error", "reply_to")}
_NEEDED[SIGNAL] = ("path", "interface", "member")


class Variant(NamedTuple):
    """A value that names its own type; signature: one complete type."""

    signature: str
    value: Any


@dataclass(frozen=True, slots=True)
class Message:
    """One message; an empty text or a 0 is a header field that it does not have.

    kind: CALL, RETURN, ERROR, SIGNAL, or a number that a later version of the format may give a meaning to
    serial: the sender's own number of it, not 0; reply_to: the serial of the call that it answers
    signature: the types of the values in `body`
    """

    kind: int
    serial: int
    path: str = ""
    interface: str = ""
    member: str = ""
    error: str = ""
    reply_to: int = 0
    destination: str = ""
    sender: str = ""
    signature: str = ""
    body: tuple[Any, ...] = ()
    flags: int = 0


def encode(message: Message) -> bytes:
    """The message as bytes. Raises Invalid for a value that is not of its type, or a message that is too large."""
    body = _Writer()
    body.values(message.signature, message.body)
    fields = [
        (code, Variant(kind, value)) for code, (kind, name, _) in _FIELDS.items() if (value := getattr(message, name))
    ]
    head = _Writer()
    order = (ord("l"), message.kind, message.flags, _VERSION, len(body.data), message.serial, fields)
    head.values("yyyyuua(yv)", order)
    head.align(8)
    if len(head.data) + len(body.data) > LARGEST:
        raise Invalid(f"dbus: a message of {len(head.data) + len(body.data)} bytes is too large")
    return bytes(head.data + body.data)


def size(start: bytes) -> int:
    """The whole length of a message from its first `START` bytes. Raises Invalid."""
    if len(start) < START:
        raise Invalid("dbus: the message is cut off")
    order = _order(start)
    body = struct.unpack_from(order + "I", start, 4)[0]
    fields = struct.unpack_from(order + "I", start, 12)[0]
    whole: int = START + fields + -fields % 8 + body
    if whole > LARGEST:
        raise Invalid(f"dbus: a message of {whole} bytes is too large")
    return whole


def decode(data: bytes) -> Message:
    """The message in these bytes, which it fills to the last one. Raises Invalid."""
    if size(data[:START]) != len(data):
        raise Invalid("dbus: the message has another length than it says")
    reader = _Reader(data, _order(data))
    _, kind, flags, version, length, serial, fields = reader.values("yyyyuua(yv)")
    if version != _VERSION or not kind or not serial:
        raise Invalid(f"dbus: a message of version {version}, type {kind}, serial {serial}")
    reader.align(8)
    found: dict[str, Any] = {}
    for code, variant in fields:
        _note_field(found, code, variant)
    if missing := [name for name in _NEEDED.get(kind, ()) if not found.get(name)]:
        raise Invalid(f"dbus: a message of type {kind} has no {missing[0]}")
    signature = found.get("signature", "")
    if not isinstance(signature, str) or (length and not signature):
        raise Invalid("dbus: the message has a body without a signature")
    body = reader.values(signature)
    if reader.at != len(data):
        raise Invalid("dbus: the body is longer than its signature says")
    return Message(kind=kind, serial=serial, flags=flags, body=body, **found)


def _note_field(found: dict[str, Any], code: int, variant: Variant) -> None:
    if code == _DESCRIPTORS and variant == Variant("u", 0):
        return
    if code in (0, _DESCRIPTORS):
        raise Invalid(f"dbus: header field {code}")
    if code not in _FIELDS:  # the format says to pass over what a later version has added
        return
    kind, name, form = _FIELDS[code]
    value = variant.value
    if variant.signature != kind or name in found:
        raise Invalid(f"dbus: header field {name} twice, or of type {variant.signature}")
    if form and not (isinstance(value, str) and len(value) <= _LONGEST_NAME and form.fullmatch(value)):
        raise Invalid(f"dbus: {name} {value!r:.80}")
    found[name] = value


def complete_types(signature: str) -> list[str]:
    """A signature taken apart into its complete types. Raises Invalid where it is no signature."""
    if len(signature) > _LONGEST_SIGNATURE:
        raise Invalid("dbus: the signature is too long")
    at, found = 0, []
    while at < len(signature):
        end = _type_end(signature, at, 0, 0)
        found.append(signature[at:end])
        at = end
    return found


def _type_end(signature: str, at: int, arrays: int, structs: int) -> int:
    """Where the complete type that begins at `at` ends. Raises Invalid."""
    code = signature[at : at + 1]
    if code in _BASIC or code == "v":
        return at + 1
    if max(arrays, structs) >= _DEEPEST_TYPE:
        raise Invalid("dbus: the signature is nested too deep")
    if code == "a":
        if signature[at + 1 : at + 2] != "{":
            return _type_end(signature, at + 1, arrays + 1, structs)
        if signature[at + 2 : at + 3] not in _BASIC:
            raise Invalid(f"dbus: the signature {signature!r:.80} has a dict without a basic key")
        end = _type_end(signature, at + 3, arrays + 1, structs + 1)
        closing = "}"
    elif code == "(":
        end = _type_end(signature, at + 1, arrays, structs + 1)
        while signature[end : end + 1] not in (")", ""):
            end = _type_end(signature, end, arrays, structs + 1)
        closing = ")"
    else:
        raise Invalid(f"dbus: the signature {signature!r:.80} has no type at {at}")
    if signature[end : end + 1] != closing:
        raise Invalid(f"dbus: the signature {signature!r:.80} lacks a {closing}")
    return end + 1


def _order(data: bytes) -> str:
    try:
        return _ORDERS[data[0]]
    except KeyError as error:
        raise Invalid(f"dbus: unknown byte order {data[0]}") from error


class _Writer:
    """Appends values, each aligned as its type asks."""

    def __init__(self) -> None:
        self.data = bytearray()

    def align(self, to: int) -> None:
        self.data += bytes(-len(self.data) % to)

    def values(self, signature: str, values: Iterable[Any]) -> None:
        try:
            for kind, value in zip(complete_types(signature), values, strict=True):
                self._one(kind, value)
        except (struct.error, TypeError, ValueError, AttributeError) as error:
            raise Invalid(f"dbus: a value does not fit its type {signature!r:.80}: {error}") from error

    def _one(self, kind: str, value: Any) -> None:
        code = kind[0]
        self.align(_ALIGNMENTS[code])
        if code in _NUMBERS:
            self.data += struct.pack("<" + _NUMBERS[code], bool(value) if code == "b" else value)
        elif code in "sog":
            self._text(code, value)
        elif code == "v":
            if not isinstance(value, Variant) or len(complete_types(value.signature)) != 1:
                raise Invalid("dbus: not a Variant of one type")
            self._text("g", value.signature)
            self._one(value.signature, value.value)
        elif code == "a":
            self._array(kind[1:], value)
        else:
            for inner, each in zip(complete_types(kind[1:-1]), value, strict=True):
                self._one(inner, each)

    def _text(self, code: str, value: object) -> None:
        if not isinstance(value, str) or "\0" in value or (code == "o" and not _PATH.fullmatch(value)):
            raise Invalid(f"dbus: {value!r:.80} is no text of type {code}")
        if code == "g":
            complete_types(value)
        data = value.encode()
        self.data += struct.pack("<B" if code == "g" else "<I", len(data)) + data + b"\0"

    def _array(self, inner: str, value: Any) -> None:
        place = len(self.data)
        self.data += bytes(4)
        self.align(_ALIGNMENTS[inner[0]])
        start = len(self.data)
        if inner == "y":
            self.data += b"".join((value,))  # refuses a number, of which `bytes` makes that many zeros
        elif inner[0] == "{":
            kinds = complete_types(inner[1:-1])
            for pair in value.items():
                self.align(8)
                for kind, each in zip(kinds, pair, strict=True):
                    self._one(kind, each)
        else:
            for each in value:
                self._one(inner, each)
        self.data[place:start] = struct.pack("<I", len(self.data) - start) + bytes(start - place - 4)


class _Reader:
    """Takes values out of the bytes, from `at` on; offsets are those of the message, by which values are aligned."""

    def __init__(self, data: bytes, order: str) -> None:
        self.at = 0
        self._data = data
        self._order = order
        self._depth = 0

    def align(self, to: int) -> None:
        end = self.at + -self.at % to
        if any(self._take(end - self.at)):
            raise Invalid("dbus: the padding is not zero")

    def values(self, signature: str) -> tuple[Any, ...]:
        return tuple(self._one(kind) for kind in complete_types(signature))

    def _take(self, count: int) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) != count:
            raise Invalid("dbus: a value reaches beyond the message")
        self.at += count
        return found

    def _one(self, kind: str) -> Any:
        code = kind[0]
        self.align(_ALIGNMENTS[code])
        if code in _NUMBERS:
            return self._number(code)
        if code in "sog":
            return self._text(code)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Invalid("dbus: the values are nested too deep")
        try:
            return self._container(kind)
        finally:
            self._depth -= 1

    def _number(self, code: str) -> Any:
        (value,) = struct.unpack(self._order + _NUMBERS[code], self._take(_ALIGNMENTS[code]))
        if code != "b":
            return value
        if value > 1:
            raise Invalid(f"dbus: {value} is no boolean")
        return bool(value)

    def _text(self, code: str) -> str:
        length = self._number("y" if code == "g" else "u")
        data = self._take(length)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise Invalid("dbus: a text is not UTF-8") from error
        if self._take(1) != b"\0" or "\0" in text:
            raise Invalid("dbus: a text does not end with its zero")
        if code == "g":
            complete_types(text)
        elif code == "o" and not _PATH.fullmatch(text):
            raise Invalid(f"dbus: {text!r:.80} is no path of an object")
        return text

    def _container(self, kind: str) -> object:
        if kind == "v":
            inner = self._text("g")
            if len(complete_types(inner)) != 1:
                raise Invalid("dbus: a variant is not of one type")
            return Variant(inner, self._one(inner))
        if kind[0] == "a":
            return self._array(kind[1:])
        return tuple(self._one(inner) for inner in complete_types(kind[1:-1]))

    def _array(self, inner: str) -> object:
        length = self._number("u")
        self.align(_ALIGNMENTS[inner[0]])
        end = self.at + length
        if end > len(self._data):
            raise Invalid("dbus: an array reaches beyond the message")
        if inner == "y":
            return self._take(end - self.at)
        pairs = complete_types(inner[1:-1]) if inner[0] == "{" else ()
        found = []
        while self.at < end:
            if pairs:
                self.align(8)
                found.append(tuple(self._one(kind) for kind in pairs))
            else:
                found.append(self._one(inner))
        if self.at != end:
            raise Invalid("dbus: the last value of an array reaches beyond it")
        return dict(found) if pairs else found

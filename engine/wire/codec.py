"""Encodes messages as JSON that names each object's class, and decodes them, also those of another version.

Used in every process of the engine; pure. The set of classes is closed: a name that is not in the table is an error.
Fields that this version does not know, because the peer is newer, are left out. Each object also carries a fingerprint
of its class's fields, so that the daemon can log that it has met another version: see `on_other_form`.
"""

import binascii
import json
from collections.abc import Callable

from engine.dataclass import fields, is_dataclass
from engine.errors import Invalid
from engine.wire import schema
from engine.wire.schema import Message

_TAG = "@"
_FORM = "#"
_BYTES = "@bytes"


CLASSES: dict[str, type] = {
    name: each for name, each in vars(schema).items() if isinstance(each, type) and is_dataclass(each)
}
FIELDS: dict[type, tuple[str, ...]] = {each: tuple(field.name for field in fields(each)) for each in CLASSES.values()}
_KNOWN: dict[str, frozenset[str]] = {name: frozenset(FIELDS[each]) for name, each in CLASSES.items()}


def form(kind: type) -> str:
    """The fingerprint of a class: eight hexadecimal digits that change with the name, order or type of a field."""
    said = ",".join(f"{field.name}:{field.type}" for field in fields(kind))
    return f"{binascii.crc32(said.encode()):08x}"


_FORMS: dict[str, str] = {name: form(each) for name, each in CLASSES.items()}
_met: set[tuple[str, str]] = set()
_tell: Callable[[str, str], None] | None = None


def on_other_form(tell: Callable[[str, str], None]) -> None:
    """Call `tell`, once for each pair, when a message comes in another version's form: with its class and its
    fingerprint.

    The fingerprint is empty for a version from before there were fingerprints.
    """
    global _tell
    _tell = tell


def _meet(name: str, theirs: str) -> None:
    if _tell is not None and (name, theirs) not in _met:
        _met.add((name, theirs))
        _tell(name, theirs)


def _plain(value: object) -> dict[str, object]:
    if type(value) is bytes:
        return {_BYTES: binascii.b2a_base64(value, newline=False).decode("ascii")}
    names = FIELDS.get(type(value))
    if names is None:
        raise TypeError(f"{type(value).__name__} is not a message")
    kind = type(value).__name__
    return {_TAG: kind, _FORM: _FORMS[kind], **{name: getattr(value, name) for name in names}}


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if type(value) is list else value


def _rebuilt(plain: dict[str, object]) -> object:
    if _BYTES in plain:
        return binascii.a2b_base64(_text(plain[_BYTES]))
    if plain.get(_TAG) is None:
        return plain
    name = _text(plain.pop(_TAG))
    known = _KNOWN[name]
    theirs = plain.pop(_FORM, "")
    if theirs != _FORMS[name]:
        _meet(name, str(theirs))
    return CLASSES[name](**{key: _frozen(value) for key, value in plain.items() if key in known})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} instead of a string")
    return value


_encoder = json.JSONEncoder(default=_plain, separators=(",", ":"), ensure_ascii=True, check_circular=False)
_decoder = json.JSONDecoder(object_hook=_rebuilt)


def encode(message: Message) -> bytes:
    """The bytes of one message. Raises TypeError for an object that is no message."""
    return _encoder.encode(message).encode("ascii")


def decode(data: bytes) -> Message:
    """The message in `data`; raises Invalid when the bytes are not exactly one message of the table."""
    try:
        decoded = _decoder.decode(data.decode("ascii"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Invalid(f"not a message of the engine: {error}") from error
    if type(decoded) not in FIELDS:
        raise Invalid("not a message of the engine: no class named")
    message: Message = decoded
    return message

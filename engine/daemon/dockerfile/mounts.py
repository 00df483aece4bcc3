"""Parses the value of RUN's --mount: a CSV line of keys and values becomes a `commands.Mount`.

Pure.
"""

import re
from collections.abc import Callable

from engine.daemon.dockerfile.commands import Mount
from engine.daemon.dockerfile.gotext import meant, quoted
from engine.dataclass import dataclass, field
from engine.errors import Invalid
from engine.literals import BOOLEANS, natural, size

TYPES = ("bind", "cache", "secret", "ssh", "tmpfs")
SHARING = ("locked", "private", "shared")
_REQUIRABLE = ("secret", "ssh")
_WITH_OWNER = ("secret", "ssh", "cache")
_WRITABLE = ("cache", "tmpfs")
_LARGEST_ID = 2**32 - 1
# The most keys of one mount; no hand-written mount has more.
_MOST_FIELDS = 64


@dataclass
class _Reading:
    """A mount while its keys are read in order: which keys are allowed depends on the keys before them."""

    type: str = "bind"
    texts: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    readonly: bool | None = None
    required: bool = False


def read(line: str, expand: Callable[[str], str] | None = None) -> Mount:
    """One mount. Raises Invalid in BuildKit's words.

    Without `expand`, a line with a variable gives a mount with `from_` alone, as only the build can know the rest.
    """
    if expand is None and "$" in line:
        return Mount(from_=_source(line))
    reading = _Reading()
    for entry in _fields(line):
        name, equals, value = entry.partition("=")
        name = name.lower()
        if not equals:
            _bare(reading, name, entry)
            continue
        key = _KEYS.get(name)
        if key is None:
            raise Invalid(f"unexpected key '{name}' in '{entry}'{meant(name, _KEYS)}")
        key(reading, name, expand(value) if expand else value)
    return _checked(reading)


def _source(line: str) -> str:
    """The value of the key `from`, in which variables are not allowed."""
    from_ = ""
    for entry in _fields(line):
        name, _, value = entry.partition("=")
        if name.lower() == "from":
            from_ = value
            if "$" in value[:-1]:
                raise Invalid(f"'{name.lower()}' doesn't support variable expansion, define alias stage instead")
    return from_


def _fields(line: str) -> list[str]:
    """The comma-separated values of one line, unquoted by the rules of CSV."""
    if not line:
        raise Invalid("failed to parse csv mounts: EOF")
    fields: list[str] = []
    place = 0
    while len(fields) < _MOST_FIELDS:
        match = _FIELD.match(line, place)
        if match is None:
            raise Invalid(
                f"failed to parse csv mounts: parse error on line 1, column {place + 1}: bare or extraneous quote"
            )
        fields.append(match[1].replace('""', '"') if match[1] is not None else match[2])
        if match.end() == len(line):
            return fields
        place = match.end() + 1
    raise Invalid(f"a mount has more than {_MOST_FIELDS} keys")


_FIELD = re.compile(r'(?:"((?:[^"]|"")*+)"|([^",]*+))(?=,|\Z)')


def _bare(reading: _Reading, name: str, entry: str) -> None:
    """Take up a key without a value."""
    if name in ("readonly", "ro", "readwrite", "rw"):
        reading.readonly = name in ("readonly", "ro")
    elif name == "required":
        _required(reading, name, "true")
    else:
        raise Invalid(f"invalid field '{entry}' must be a key=value pair")


def _text(key: str) -> Callable[[_Reading, str, str], None]:
    def keep(reading: _Reading, name: str, value: str) -> None:
        reading.texts[key] = value

    return keep


def _number(key: str, octal: bool = False) -> Callable[[_Reading, str, str], None]:
    def keep(reading: _Reading, name: str, value: str) -> None:
        number = natural(value, _LARGEST_ID, octal=octal)
        if number is None:
            raise Invalid(f"invalid value {value} for {name}")
        reading.numbers[key] = number

    return keep


def _type(reading: _Reading, name: str, value: str) -> None:
    if value.lower() not in TYPES:
        raise Invalid(f"unsupported mount type {quoted(value)}{meant(value, TYPES)}")
    reading.type = value.lower()


def _sharing(reading: _Reading, name: str, value: str) -> None:
    if value.lower() not in SHARING:
        raise Invalid(f"unsupported sharing value {quoted(value)}{meant(value, SHARING)}")
    reading.texts["sharing"] = value.lower()


def _boolean(name: str, value: str) -> bool:
    if value not in BOOLEANS:
        raise Invalid(f"invalid value for {name}: {value}")
    return BOOLEANS[value]


def _readonly(reading: _Reading, name: str, value: str) -> None:
    reading.readonly = _boolean(name, value) == (name in ("readonly", "ro"))


def _required(reading: _Reading, name: str, value: str) -> None:
    if reading.type not in _REQUIRABLE:
        raise Invalid(f"unexpected key '{name}' for mount type '{reading.type}'")
    reading.required = _boolean(name, value)


def _size(reading: _Reading, name: str, value: str) -> None:
    if reading.type != "tmpfs":
        raise Invalid(f"unexpected key '{name}' for mount type '{reading.type}'")
    try:
        reading.numbers["size"] = size(value, 1024)
    except Invalid as error:
        raise Invalid(f"invalid value for {name}: {value}") from error


def _check(reading: _Reading) -> None:
    """Raise Invalid for keys that cannot be combined."""
    texts = reading.texts
    if reading.type not in _WITH_OWNER:
        for key in ("mode", "uid", "gid"):
            if key in reading.numbers:
                raise Invalid(f"{key} not allowed for {quoted(reading.type)} type mounts")
    if reading.type == "secret":
        if texts.get("from_"):
            raise Invalid("secret mount should not have a from")
        if "sharing" in texts:
            raise Invalid("secret mount should not define sharing")
        if not any(texts.get(key) for key in ("source", "target", "id")):
            raise Invalid("invalid secret mount. one of source, target required")
        if texts.get("source") and texts.get("id"):
            raise Invalid("both source and id can't be set")
    if "sharing" in texts and reading.type != "cache":
        raise Invalid(f"invalid cache sharing set for {reading.type} mount")


def _checked(reading: _Reading) -> Mount:
    _check(reading)
    texts, numbers = reading.texts, reading.numbers
    return Mount(
        type=reading.type,
        source=texts.get("source", ""),
        target=texts.get("target", ""),
        from_=texts.get("from_", ""),
        readonly=reading.type not in _WRITABLE if reading.readonly is None else reading.readonly,
        id=texts.get("id", ""),
        sharing=texts.get("sharing", ""),
        required=reading.required,
        mode=numbers.get("mode"),
        uid=numbers.get("uid"),
        gid=numbers.get("gid"),
        size=numbers.get("size"),
        env=texts.get("env"),
    )


_KEYS: dict[str, Callable[[_Reading, str, str], None]] = {
    "type": _type,
    "from": _text("from_"),
    **dict.fromkeys(("source", "src"), _text("source")),
    **dict.fromkeys(("target", "dst", "destination"), _text("target")),
    **dict.fromkeys(("readonly", "ro", "readwrite", "rw"), _readonly),
    "required": _required,
    "size": _size,
    "id": _text("id"),
    "sharing": _sharing,
    "mode": _number("mode", octal=True),
    "uid": _number("uid"),
    "gid": _number("gid"),
    "env": _text("env"),
}

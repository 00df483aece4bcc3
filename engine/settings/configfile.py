"""Reads daemon.json: the text of the file becomes values by key, with dockerd's refusals.

Pure but for `read`, which opens the file. It knows no option by itself: `every` hands in what it declares. Each refusal
is in dockerd's words, except those about a value of the wrong type, where dockerd shows the names of its Go types.
"""

import codecs
import json
from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.annotating import Any
from engine.commandline import Given, Option, Value
from engine.errors import Invalid
from engine.redact import redacted

Readers = Mapping[str, Callable[[object], Value]]
"""Key → the function that reads its value from the file, where that has a form of its own there."""

GROUPS: Mapping[str, Sequence[str]] = {"proxies": (), "builder": ("entitlements", "gc")}
"""The objects of the file whose members are options of their own, with keys like `proxies.NAME` → the names of members
that may stand in any case. The others are dockerd's flags, which it looks for as they are.
"""
_LARGEST = 1 << 20
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# A key that older versions of dockerd had for a single value → the key of today, which has a list.
_FORMER = {"host-gateway-ip": "host-gateway-ips"}
# Keys that dockerd takes and forgets, because older versions of it had them.
_FORGOTTEN = frozenset({"deprecated-key-path", "allow-nondistributable-artifacts"})
# Keys of which the command line may add more.
_MERGED = frozenset({"runtimes"})
_TYPES = {"flag": "true or false", "text": "a string", "list": "a list of strings", "number": "a whole number"}
# Of these keys an empty value says something; of all others it means the default, as in dockerd.
_MAY_BE_EMPTY = frozenset({"cdi-spec-dirs", "default-stop-timeout", "idle-exit"})


def read(path: str, options: Sequence[Option], readers: Readers, given: Given, required: bool) -> dict[str, Value]:
    """The values of the configuration file by key; none when a file that the user did not name does not exist.

    given: the command line's values by option name. Raises Invalid.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError as error:
        if not required:
            return {}
        raise Invalid(f"unable to configure the Docker daemon with file {path}: {error.strerror}") from error
    except OSError as error:
        raise Invalid(f"unable to configure the Docker daemon with file {path}: {error}") from error
    try:
        return values(_decoded(data), options, readers, given)
    except Invalid as error:
        raise Invalid(f"unable to configure the Docker daemon with file {path}: {error}") from error


def _decoded(data: bytes) -> str:
    if len(data) > _LARGEST:
        raise Invalid(f"it is larger than {_LARGEST} bytes")
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Invalid(f"failed to decode configuration JSON at offset {error.start}: {error.reason}") from error


def values(text: str, options: Sequence[Option], readers: Readers, given: Given) -> dict[str, Value]:
    """The text of a daemon.json as values by key.

    `given`: the command line's values by option name; a key that stands in both places is an error, as in dockerd,
    because neither place could be trusted otherwise. Raises Invalid.
    """
    if not text.strip():
        return {}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"invalid JSON: {error}") from error
    if not isinstance(document, dict):
        raise Invalid("invalid JSON: not an object")
    document = _renamed(_flat(document))
    by_key = {option.key: option for option in options if option.key}
    if unknown := sorted(document.keys() - by_key.keys() - _FORGOTTEN):
        raise Invalid(f"the following directives don't match any configuration option: {', '.join(unknown)}")
    _check_once([(by_key[key], value) for key, value in document.items() if key in by_key], given)
    return {
        key: _value(by_key[key], value, readers)
        for key, value in document.items()
        if key in by_key and (key in _MAY_BE_EMPTY or not _is_empty(value))
    }


def members(value: object, names: Iterable[str]) -> dict[str, Any]:
    """The members of an object of the file by these names, which may stand there in any case, as in Go's JSON.

    A name that stands there twice has its last value; others stay as they are. Raises Invalid for what is no object.
    """
    if not isinstance(value, dict):
        raise Invalid(f"expected an object, got {json.dumps(value)}")
    known = {name.lower(): name for name in names}
    return {known.get(str(name).lower(), str(name)): each for name, each in value.items()}


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: each for key, each in document.items() if key not in GROUPS}
    for group, names in GROUPS.items():
        inner = document.get(group) or {}
        if not isinstance(inner, dict):
            raise Invalid(f"{group}: expected an object, got {json.dumps(inner)}")
        found |= {f"{group}.{key}": each for key, each in members(inner, names).items()}
    return found


def _renamed(document: dict[str, Any]) -> dict[str, Any]:
    for former, now in _FORMER.items():
        if former in document and now in document:
            raise Invalid(f"{former} and {now} must not both be specified in the config file")
        if former in document:
            document[now] = [document.pop(former)]
    return document


def _is_empty(value: Any) -> bool:
    return value is None or (not isinstance(value, bool) and value in ("", 0, [], {}))


def _check_once(found: Iterable[tuple[Option, Any]], given: Given) -> None:
    """Raise Invalid for options that stand on the command line too."""
    twice = [
        f"{option.key.rpartition('.')[2]}: (from flag: {_shown(given[option.name])}, from file: {_shown(value)})"
        for option, value in sorted(found, key=lambda pair: pair[0].name)
        if option.name in given and option.key not in _MERGED
    ]
    if twice:
        raise Invalid(
            "the following directives are specified both as a flag and in the configuration file: " + ", ".join(twice)
        )


def _shown(value: Any) -> str:
    """A value as Go's %v shows it, without the credentials of a URL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_shown(value[key])}' for key in sorted(value))}]"
    return redacted(value) if isinstance(value, str) else str(value)


def _value(option: Option, value: Any, readers: Readers) -> Value:
    try:
        return readers[option.key](value) if option.key in readers else _plain(option, value)
    except Invalid as error:
        raise Invalid(f"{option.key}: {error}") from error


def _plain(option: Option, value: Any) -> Value:
    if option.kind == "flag" and isinstance(value, bool):
        return value
    if option.kind == "text" and isinstance(value, str):
        return option.check(value)
    if option.kind == "number" and type(value) is int:
        return int(option.check(str(value)))
    if option.kind == "list" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(option.check(item) for item in value)
    raise Invalid(f"expected {_TYPES[option.kind]}, got {json.dumps(value)}")

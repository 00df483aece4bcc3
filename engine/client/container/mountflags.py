"""Parses what `-v` and `--mount` say, in docker's words where it is wrong.

Pure but for the name of the present directory, which a relative path of `-v` begins with.
"""

import csv
import os
from collections.abc import Callable, Sequence

from engine.annotating import Any
from engine.client.display import parse_size
from engine.client.transport import Object
from engine.errors import Invalid
from engine.literals import BOOLEANS, natural

_MOST_MODE = 0o7777


def volumes(texts: Sequence[str]) -> tuple[list[str], Object]:
    """`-v` texts as (HostConfig.Binds, Volumes): what has a source, and the anonymous ones."""
    binds: list[str] = []
    anonymous: Object = {}
    for text in texts:
        source, separator, rest = text.partition(":")
        if not separator:
            anonymous[text] = {}
        elif source.startswith("."):
            binds.append(f"{os.path.abspath(source)}:{rest}")
        else:
            binds.append(text)
    return binds, anonymous


def checked(text: str) -> str:
    """Checks one `--mount`. Raises Invalid."""
    mount(text)
    return text


def mount(text: str) -> Object:
    """One `--mount` (`type=bind,source=/a,target=/b,readonly`) as a Mount of the API. Raises Invalid."""
    rows = list(csv.reader([text], strict=True)) if text else []
    if not rows:
        raise Invalid("EOF")
    made: Object = {"Type": "volume", "Target": ""}
    for part in rows[0]:
        key, separator, value = part.partition("=")
        key = key.lower()
        if not separator and key not in _FLAGS:
            raise Invalid(f"invalid field '{part}' must be a key=value pair")
        if key not in _FIELDS:
            raise Invalid(f"unexpected key '{key}' in '{part}'")
        field, form = _FIELDS[key]
        _set(made, field, form(value if separator else "true", key))
    if not made["Target"]:
        raise Invalid("target is required")
    kind = made["Type"]
    for options, of in _OPTIONS.items():
        if options in made and kind != of:
            raise Invalid(f"cannot mix '{of}-*' options with mount type '{kind}'")
    return made


def _set(made: Object, field: str, value: Any) -> None:
    *path, last = field.split(".")
    for name in path:
        made = made.setdefault(name, {})
    if isinstance(value, dict):
        made.setdefault(last, {}).update(value)
    else:
        made[last] = value


def _same(value: str, key: str) -> str:
    return value


def _lower(value: str, key: str) -> str:
    return value.lower()


def _truth(value: str, key: str) -> bool:
    if value not in BOOLEANS:
        raise Invalid(f"invalid value for {key}: {value}")
    return BOOLEANS[value]


def _pair(value: str, key: str) -> dict[str, str]:
    name, _, rest = value.partition("=")
    return {name: rest}


def _bytes(value: str, key: str) -> int:
    try:
        return parse_size(value)
    except Invalid as error:
        raise Invalid(f"invalid value for {key}: {value}") from error


def _mode(value: str, key: str) -> int:
    found = natural(value, _MOST_MODE, octal=True)
    if found is None:
        raise Invalid(f"invalid value for {key}: {value}")
    return found


def _source(value: str, key: str) -> str:
    return os.path.abspath(value) if value.startswith(".") else value


_FLAGS = ("readonly", "ro", "volume-nocopy", "bind-nonrecursive")
_OPTIONS = {"BindOptions": "bind", "VolumeOptions": "volume", "TmpfsOptions": "tmpfs", "ImageOptions": "image"}
_FIELDS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "type": ("Type", _lower),
    **dict.fromkeys(("source", "src"), ("Source", _source)),
    **dict.fromkeys(("target", "dst", "destination"), ("Target", _same)),
    **dict.fromkeys(("readonly", "ro"), ("ReadOnly", _truth)),
    "consistency": ("Consistency", _lower),
    "bind-propagation": ("BindOptions.Propagation", _lower),
    "bind-nonrecursive": ("BindOptions.NonRecursive", _truth),
    "volume-nocopy": ("VolumeOptions.NoCopy", _truth),
    "volume-label": ("VolumeOptions.Labels", _pair),
    "volume-driver": ("VolumeOptions.DriverConfig.Name", _same),
    "volume-opt": ("VolumeOptions.DriverConfig.Options", _pair),
    "volume-subpath": ("VolumeOptions.Subpath", _same),
    "image-subpath": ("ImageOptions.Subpath", _same),
    "tmpfs-size": ("TmpfsOptions.SizeBytes", _bytes),
    "tmpfs-mode": ("TmpfsOptions.Mode", _mode),
}

"""The words of `RUN --device`: one line of CSV, as Dockerfiles and BuildKit's clients write it.

Pure. Source: buildkit, frontend/dockerfile/instructions/commands_rundevice.go.
"""

import csv

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import boolean


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a command asks for. name: `vendor/class=name`, `vendor/class`, `vendor/class=*`, or a class"""

    name: str
    required: bool = False


def read(line: str) -> Device:
    """The device of one flag. Raises Invalid in BuildKit's words."""
    name, required = "", False
    for field in fields(line, "failed to parse csv devices: "):
        key, equals, value = field.partition("=")
        key = key.lower()
        if key == "required":
            required = _flag(key, value) if equals else True
        elif key == "name" and equals:
            if name:
                raise Invalid(f"device name already set to {name}")
            name = value
        elif not name:
            name = field
        elif not equals:
            raise Invalid(f"invalid field '{field}' must be a key=value pair")
        else:
            raise Invalid(f"unexpected key '{key}' in '{field}'")
    return Device(name, required)


def fields(line: str, failed: str = "") -> list[str]:
    """The values of one line of CSV. failed: before the words of a failure. Raises Invalid."""
    try:
        found = next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise Invalid(f"{failed}{error}") from error
    if not found:
        raise Invalid(f"{failed}EOF")
    return found


def _flag(key: str, value: str) -> bool:
    try:
        return boolean(value)
    except Invalid as error:
        raise Invalid(f"invalid value for {key}: {error}") from error

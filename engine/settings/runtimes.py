"""Declares the OCI runtimes that containers may ask for beside this engine, and which one they get by default.

Pure. Names, keys and words are dockerd's. Where a program is, is looked up when a container asks for it.
"""

import json
from collections.abc import Callable, Iterable

from engine.commandline import Option, Value
from engine.errors import Invalid
from engine.settings import configfile

STOCK = "runc"
OWN = frozenset({STOCK, "io.containerd.runc.v2", "engine"})
"""The names that all mean this engine, which is no other program's shim."""
_MEMBERS = ("path", "runtimeArgs", "runtimeType", "options")


def programs(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name → the program and its arguments, of the settings' `runtimes`."""
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, words = text.partition("=")
        found[name] = tuple(json.loads(words))
    return found


def check(texts: tuple[str, ...], default: str) -> None:
    """Raise Invalid for a name that stands twice, and for a default that no runtime has."""
    names = [text.partition("=")[0] for text in texts]
    for name in names:
        if names.count(name) > 1:
            raise Invalid(f"runtime '{name}' was already defined")
    if default not in OWN and default not in names:
        raise Invalid(f"specified default runtime '{default}' does not exist")


def _runtime(text: str) -> str:
    """`name=["program"]` of the command line's `name=program`."""
    name, equals, program = (part.strip() for part in text.partition("="))
    if not (equals and name and program):
        raise Invalid(f"invalid runtime argument: {text}")
    return _whole(name.lower(), program, [])


def _whole(name: str, program: str, arguments: list[str]) -> str:
    if name == STOCK:
        raise Invalid(f"runtime name '{STOCK}' is reserved")
    if any("\0" in word for word in (name, program, *arguments)):
        raise Invalid(f"invalid runtime argument: {name}")
    return f"{name}={json.dumps([program, *arguments])}"


def _of_file(value: object) -> tuple[str, ...]:
    """Runtimes from daemon.json, which has an object: {"crun": {"path": "/usr/bin/crun", "runtimeArgs": []}}."""
    return tuple(_one_of_file(name, each) for name, each in configfile.members(value, ()).items())


def _one_of_file(name: str, value: object) -> str:
    told = configfile.members(value, _MEMBERS)
    if not isinstance(told.get("path", ""), str):
        raise Invalid(f"expected an object with a path, got {json.dumps(value)}")
    arguments = told.get("runtimeArgs") or []
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise Invalid(f"runtimeArgs of {name}: expected a list of strings, got {json.dumps(arguments)}")
    if told.get("runtimeType") or told.get("options") or not told.get("path"):
        raise Invalid(f"runtime {name}: shims of containerd (runtimeType) are not run by this engine: give a path")
    return _whole(name, told["path"], arguments)


OPTIONS = (
    Option(
        "add-runtime",
        "NAME=PROGRAM of another OCI runtime that containers may ask for (docker run --runtime); repeatable",
        kind="list",
        check=_runtime,
        default=(),
        value="runtime",
        key="runtimes",
    ),
    Option(
        "default-runtime",
        f"Runtime of containers that name none; {STOCK} is this engine itself",
        check=lambda text: text or STOCK,
        default=STOCK,
        value="name",
        key="default-runtime",
    ),
)
FILE_READERS: dict[str, Callable[[object], Value]] = {"runtimes": _of_file}

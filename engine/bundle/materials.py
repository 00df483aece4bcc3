"""Gathers the files that an engine consists of: from a clone, an installed package, or the one file that runs.

Only reads. An engine in one file has all that makes another one: for the Python of another host it makes itself anew.
"""

import os
from collections.abc import Iterator

from engine import origin
from engine.bundle import objects
from engine.bundle.stripping import without_words
from engine.errors import Invalid, SystemFailure

_DATA = (".json", ".service", ".socket")
_NOT = "__pycache__"
_TARGETS = "_muxer/targets"
_NATIVE = "_native.abi3.so"
_PROGRAMS = ("docker-init", "engine-sleeper")

Files = dict[str, bytes]
"""The files' contents by their paths, relative and with slashes."""


def gather() -> Files:
    """All files: modules (`.py`) without comments, data, and what was compiled for each target. Raises SystemFailure.

    `_muxer/targets/x86_64-linux-gnu-2.33/_native.abi3.so` is a C muxer, and `_muxer/targets/x86_64/docker-init` and
    `engine-sleeper` are programs for every C library.
    """
    if origin.ours is not None:
        return {name: origin.ours.read(name) for kind in "sd" for name in origin.ours.names(kind)}
    root = origin.root() or ""
    files: Files = {}
    try:
        for path in (*_below(root, "engine"), "_muxer/__init__.py"):
            text = _read(os.path.join(root, path))
            files[path] = without_words(text.decode()).encode() if path.endswith(".py") else text
        for directory in ("_muxer", *_targets(root)):
            files |= _compiled(os.path.join(root, directory))
        for path in _needless(files):
            del files[path]
    except OSError as error:
        raise SystemFailure(f"the engine's own files cannot be read: {error}") from error
    return files


def targets(files: Files) -> list[str]:
    """What the files have a C muxer for: `x86_64-linux-gnu-2.33`."""
    return sorted(path.split("/")[2] for path in files if path.endswith(_NATIVE))


def _needless(files: Files) -> list[str]:
    """The libraries for newer versions of a C library than another one that is there for the same machine."""
    found: dict[str, list[tuple[list[int], str]]] = {}
    for name in targets(files):
        kind, _, version = name.rpartition("-")
        found.setdefault(kind, []).append(([int(part) for part in version.split(".")], name))
    return [f"{_TARGETS}/{name}/{_NATIVE}" for each in found.values() for _, name in sorted(each)[1:]]


def _below(root: str, top: str) -> Iterator[str]:
    for directory, directories, names in os.walk(os.path.join(root, top)):
        directories[:] = sorted(set(directories) - {_NOT})
        for name in sorted(names):
            if name.endswith((".py", *_DATA)):
                yield os.path.relpath(os.path.join(directory, name), root)


def _targets(root: str) -> list[str]:
    place = os.path.join(root, _TARGETS)
    return [f"{_TARGETS}/{name}" for name in sorted(os.listdir(place))] if os.path.isdir(place) else []


def _compiled(directory: str) -> Files:
    found: Files = {}
    for name in (_NATIVE, *_PROGRAMS):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            data = _read(path)
            try:
                place = objects.target(data) if name == _NATIVE else objects.machine(data)
                found[f"{_TARGETS}/{place}/{name}"] = objects.loaded(data)
            except Invalid as error:
                raise SystemFailure(f"{path}: {error}") from error
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()

"""Adds to a bill of materials (SPDX) of an image in which of its layers each file is, as a comment of the file.

Runs on the thread that exports. Only a bill that is well-formed, and of a size that is read as a whole, is changed.
Source: buildkit, exporter/containerimage/attestations.go.
"""

import os
import posixpath
from collections.abc import Callable, Sequence

from engine.daemon.images import image as documents
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.kernel.beneath import open_beneath
from engine.settings import advertised

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TOOL = f"Tool: engine-{advertised.VERSION}"


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A layer. path: of the directory with its files; digest: of its blob in the image"""

    path: str
    digest: str


def noted(predicate: bytes, layers: Sequence[Unpacked], check: Callable[[], None]) -> bytes:
    """The bill with the comments; as it is where it cannot be read. layers: of the image, the lowest first

    check: called now and then, and raises to end it
    """
    try:
        document = documents.load(predicate, "SPDX")
    except Invalid:  # what is no bill is its reader's matter
        return predicate
    files, creation = document.get("files", []), document.setdefault("creationInfo", {})
    creators = creation.setdefault("creators", []) if isinstance(creation, dict) else None
    if not isinstance(files, list) or not isinstance(creators, list):
        return predicate
    creators.append(_TOOL)
    named = [(_path(each), each) for each in files if _is_bare(each)]
    above, there = "", list[tuple[str, frozenset[str]]]()
    for path, file in sorted(named, key=lambda pair: pair[0]):
        parent, name = posixpath.split(path)
        if parent != above:
            check()
            above, there = parent, [(layer.digest, _names(layer.path, parent)) for layer in reversed(layers)]
        digest = next((digest for digest, names in there if name in names), "")
        if digest:
            file["comment"] = f"layerID: {digest}"
    return documents.dump(document)


def _is_bare(file: object) -> bool:
    """Whether it is a file of a bill that has a name and no comment."""
    return isinstance(file, dict) and isinstance(file.get("fileName"), str) and not file.get("comment")


def _path(file: Object) -> str:
    name: str = file["fileName"]
    return posixpath.normpath("/" + name.lstrip("/"))


def _names(layer: str, directory: str) -> frozenset[str]:
    """The files and links that a layer has in a directory of its own."""
    try:
        root = os.open(layer, _DIRECTORY)
        try:
            opened = open_beneath(root, directory, _DIRECTORY, no_symlinks=True)
        finally:
            os.close(root)
    except (OSError, ValueError):  # it has no such directory, or the name is none
        return frozenset()
    try:
        with os.scandir(opened) as entries:
            return frozenset(
                entry.name for entry in entries if entry.is_file(follow_symlinks=False) or entry.is_symlink()
            )
    finally:
        os.close(opened)

"""Reads the attestations that a frontend brings with its result, out of the trees that they lie in.

Runs on the thread of Control/Solve. The trees and the paths are a stranger's: what is read is bounded, and lies beneath
the root of the tree. What an attestation may be: buildkit, exporter/attestation/unbundle.go and make.go.
"""

import os
import posixpath
from collections.abc import Sequence

from engine.daemon.buildkit.exporters.intoto import Attestation
from engine.daemon.buildkit.llb import showing
from engine.daemon.buildkit.outcome import Brought
from engine.daemon.buildkit.sbom import generated, rawmembers
from engine.daemon.images.layers import merged
from engine.dataclass import replace
from engine.errors import Invalid, NotFound
from engine.kernel.beneath import open_beneath
from engine.literals import quoted

_PROVENANCE = "https://slsa.dev/provenance/"
_CORE, _INLINE_ONLY = "sbom-core", "inline-only"  # names in an attestation's metadata
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read(layer_root: str, brought: Sequence[Brought]) -> list[Attestation]:
    """What they say, in order. Raises Invalid, NotFound."""
    return [said for each in brought for said in _read(layer_root, each)]


def _read(layer_root: str, one: Brought) -> list[Attestation]:
    core = one.metadata.get(_CORE, b"").decode("utf-8", "replace")

    def bundle(root: int) -> list[Attestation]:
        try:
            place = open_beneath(root, one.path, _DIRECTORY)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"attestation bundle {one.path}: no such directory") from error
        try:
            return generated.read(place, one.kind, core, "a frontend")
        finally:
            os.close(place)

    def single(root: int) -> list[Attestation]:
        name = posixpath.basename(one.path)
        if not name or name in (".", "..") or not name.isprintable():
            raise Invalid("attestation does not have set path")
        subjects = tuple(generated.subject(name, *each) for each in one.subjects)
        said = _predicate(showing.file(root, one.path), one.path)
        return [Attestation(one.kind, said, name, subjects=subjects, core=bool(core) and name.split(".")[0] == core)]

    found = merged.within(layer_root, one.files.layers, bundle if one.bundled else single)
    for each in found:
        if each.kind.startswith(_PROVENANCE):
            raise Invalid("frontend may not set provenance attestations")
    inline_only = one.metadata.get(_INLINE_ONLY) == b"true"
    return [replace(each, inline_only=inline_only) for each in found]


def _predicate(data: bytes, path: str) -> bytes:
    """The document, which is checked to be one; nothing stands for none."""
    if not data.strip():
        return b"null"
    rawmembers.split(data, f"predicate {quoted(path)}")
    return data.strip()

"""What an operation of a build makes: a tree of files that never changes, as the layers that it consists of.

Pure values. A snapshot pins nothing: the build that uses it keeps its layers and blobs (see `keeping`).
"""

import hashlib

from engine.daemon.images.layers.store import Layer
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One layer of a tree: the unpacked layer, and the descriptor of its blob (mediaType, digest, size)."""

    layer: Layer
    descriptor: Object


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A tree of files. parts: its layers, the lowest first; no part for an empty tree"""

    parts: tuple[Part, ...] = ()

    @property
    def chain(self) -> str:
        """The OCI chain id of the layers, which names the contents of the tree; empty for an empty tree.

        Source: OCI image-spec, config.md, "Layer ChainID".
        """
        found = ""
        for part in self.parts:
            found = _chained(found, part.layer.diff_id) if found else part.layer.diff_id
        return found

    @property
    def layers(self) -> tuple[str, ...]:
        """The directories of the layers below the layer root, lowest first.

        A layer that comes twice counts in its upper place alone, as overlayfs takes no directory twice.
        """
        upper = dict.fromkeys(str(part.layer.number) for part in reversed(self.parts))
        return tuple(reversed(upper))

    @property
    def diff_ids(self) -> list[str]:
        """The digests of the layers' uncompressed tars, lowest first, as an image's config lists them."""
        return [part.layer.diff_id for part in self.parts]

    def above(self, part: Part | None) -> "Snapshot":
        """This tree with one more layer; the same tree for None."""
        return Snapshot((*self.parts, part)) if part is not None else self


def _chained(below: str, diff_id: str) -> str:
    return f"sha256:{hashlib.sha256(f'{below} {diff_id}'.encode()).hexdigest()}"

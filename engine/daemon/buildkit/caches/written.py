"""Writes what a build has made as a cache: the config of it, and the blobs that it names.

Pure. With `min` a cache has the results that are layers of the exported trees; with `max` those of every step.
"""

from collections.abc import Sequence

from engine.daemon.builder.graph.snapshot import Part
from engine.daemon.builder.graph.traced import Step
from engine.daemon.buildkit.caches.cacheconfig import CacheConfig, CacheLayer, CacheRecord
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass

UNCOMPRESSED = "containerd.io/uncompressed"
"""The annotation with the digest of a layer's tar: without it nobody could tell which layer a blob is."""


@dataclass(frozen=True, slots=True)
class Written:
    """A cache. blobs: descriptor of each layer, by its digest"""

    config: CacheConfig
    blobs: dict[str, Object]


def written(steps: Sequence[Step], least: Sequence[Sequence[Part]] | None) -> Written:
    """The cache of these steps. least: the exported trees, for a cache that has no more than these; None for all"""
    making = _Making()
    ends = None if least is None else {_digests(parts[:count]) for parts in least for count in range(len(parts) + 1)}
    records = []
    for step in steps:
        parts = step.tree.parts
        wanted = step.cached and (ends is None or _digests(parts) in ends)
        layers = (making.layer(parts),) if wanted and parts else ()
        chains = ((),) if wanted and not parts else ()  # a mount that the command has left empty
        records.append(CacheRecord(key(step.identity), tuple((place,) for place in step.inputs), layers, chains))
    return Written(CacheConfig(tuple(making.layers), tuple(records)), making.blobs)


def key(identity: str) -> str:
    """The digest of a record, for the identity of a step."""
    return f"sha256:{identity}"


def _digests(parts: Sequence[Part]) -> tuple[str, ...]:
    return tuple(part.layer.diff_id for part in parts)


class _Making:
    """The layers as they are numbered."""

    def __init__(self) -> None:
        self.layers: list[CacheLayer] = []
        self.blobs: dict[str, Object] = {}
        self._places: dict[tuple[str, int], int] = {}

    def layer(self, parts: Sequence[Part]) -> int:
        """The place of the uppermost of these layers."""
        place = -1
        for part in parts:
            digest = part.descriptor["digest"]
            known = self._places.get((digest, place))
            if known is None:
                known = self._places[digest, place] = len(self.layers)
                self.layers.append(CacheLayer(digest, place))
                self.blobs[digest] = {**part.descriptor, "annotations": {UNCOMPRESSED: part.layer.diff_id}}
            place = known
        return place

"""The document that says what a cache has: layers, and records of steps that lead to them.

Pure. Format: buildkit, cache/remotecache/v1/types/types.go (application/vnd.buildkit.cacheconfig.v0). A document may
come from anybody: its size, its numbers and the depth of its chains are bounded, and no index in it leads elsewhere.
"""

from collections.abc import Sequence

from engine.daemon.images import image as documents
from engine.daemon.images.reference import check_digest
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid

MEDIA_TYPE = "application/vnd.buildkit.cacheconfig.v0"
LARGEST = 16 << 20
_MOST_LAYERS = 20_000
_MOST_RECORDS = 50_000


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """One layer above another. blob: its digest; parent: place of the layer below, -1 for none"""

    blob: str
    parent: int = -1


@dataclass(frozen=True, slots=True)
class CacheRecord:
    """One step. digest: its key; inputs: for each of its inputs, the places of the records that may be there

    layers: places of the uppermost layers of its results; chains: results whose layers are told one by one
    """

    digest: str
    inputs: tuple[tuple[int, ...], ...] = ()
    layers: tuple[int, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """The whole document."""

    layers: tuple[CacheLayer, ...]
    records: tuple[CacheRecord, ...]

    def chain(self, place: int) -> list[str]:
        """The blobs of a layer and of all below it, the lowest first. Raises Invalid for a chain without an end."""
        found: list[str] = []
        while place != -1:
            if len(found) >= documents.MOST_LAYERS:
                raise Invalid("invalid cache: a chain of layers that is too long")
            found.append(self.layers[place].blob)
            place = self.layers[place].parent
        return found[::-1]

    def results(self) -> dict[str, list[str]]:
        """Digest of each record that has a result → the blobs of the first, the lowest first. Raises Invalid."""
        found: dict[str, list[str]] = {}
        for record in self.records:
            if record.digest in found:
                continue
            if record.layers:
                found[record.digest] = self.chain(record.layers[0])
            elif record.chains:
                found[record.digest] = [self.layers[place].blob for place in record.chains[0]]
        return found


def load(data: bytes) -> CacheConfig:
    """The document in these bytes. Raises Invalid."""
    if len(data) > LARGEST:
        raise Invalid("invalid cache: its config is too large")
    document = documents.load(data, "cache config")
    layers = [_layer(each) for each in _list(document, "layers", _MOST_LAYERS)]
    records = _list(document, "records", _MOST_RECORDS)
    for layer in layers:
        _check(layer.parent, len(layers), lowest=-1)
    return CacheConfig(tuple(layers), tuple(_record(each, len(layers), len(records)) for each in records))


def _list(document: Object, name: str, most: int) -> list[Object]:
    found = document.get(name) or []
    if not isinstance(found, list) or len(found) > most or not all(isinstance(each, dict) for each in found):
        raise Invalid(f"invalid cache config: {name} is of the wrong type, or too long")
    return found


def _layer(document: Object) -> CacheLayer:
    return CacheLayer(_digest(document.get("blob")), _number(document.get("parent", 0)))


def _record(document: Object, layers: int, records: int) -> CacheRecord:
    inputs = []
    for each in document.get("inputs") or []:
        if not isinstance(each, list):
            raise Invalid("invalid cache config: inputs are of the wrong type")
        inputs.append(tuple(_check(_number(_member(link, "link")), records) for link in each))
    results = tuple(_check(_number(_member(each, "layer")), layers) for each in document.get("layers") or [])
    chains = []
    for each in document.get("chains") or []:
        places = _member(each, "layers")
        if not isinstance(places, list) or len(places) > documents.MOST_LAYERS:
            raise Invalid("invalid cache config: a chain is of the wrong type, or too long")
        chains.append(tuple(_check(_number(place), layers) for place in places))
    return CacheRecord(_digest(document.get("digest")), tuple(inputs), results, tuple(chains))


def _member(document: object, name: str) -> object:
    if not isinstance(document, dict):
        raise Invalid("invalid cache config: a part of it is of the wrong type")
    return document.get(name, 0)


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Invalid("invalid cache config: a place is no number")
    return value


def _check(place: int, count: int, lowest: int = 0) -> int:
    if not lowest <= place < count:
        raise Invalid(f"invalid cache config: there is nothing in place {place}")
    return place


def _digest(value: object) -> str:
    if not isinstance(value, str):
        raise Invalid("invalid cache config: a digest is no text")
    check_digest(value)
    return value


def dump(config: CacheConfig) -> bytes:
    """The document's bytes."""
    return documents.dump(
        {
            "layers": [{"blob": each.blob, "parent": each.parent} for each in config.layers],
            "records": [_dumped(each) for each in config.records],
        }
    )


def _dumped(record: CacheRecord) -> Object:
    return {
        **({"layers": [_made(each) for each in record.layers]} if record.layers else {}),
        **({"chains": [{"layers": list(each)} for each in record.chains]} if record.chains else {}),
        "digest": record.digest,
        **({"inputs": [_linked(each) for each in record.inputs]} if record.inputs else {}),
    }


def _made(place: int) -> Object:
    # Who reads it wants a time; that it is always the same keeps one cache of one build the same too.
    return {"layer": place, "createdAt": "0001-01-01T00:00:00Z"}


def _linked(places: Sequence[int]) -> list[Object]:
    return [{"link": place} for place in places]

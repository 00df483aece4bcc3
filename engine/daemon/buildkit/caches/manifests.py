"""The manifest or index of a cache: which blobs it has, and where its config is.

Pure. Form: an index whose entries are layers, which registries take for manifests that need not be there, or the
manifest of an image whose config is that of the cache (buildkit, cache/remotecache/export.go). What is read is bounded.
"""

from collections.abc import Sequence

from engine.daemon.buildkit.caches import cacheconfig
from engine.daemon.buildkit.caches.written import UNCOMPRESSED
from engine.daemon.images import image as documents
from engine.daemon.images.reference import check_digest
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass
from engine.errors import Invalid

_MOST_BLOBS = 20_000


@dataclass(frozen=True, slots=True)
class CacheBlob:
    """One layer's blob. descriptor: mediaType, digest, size; diff_id: digest of the tar in it"""

    descriptor: Object
    diff_id: str


@dataclass(frozen=True, slots=True)
class CacheManifest:
    """What it names. config: descriptor of the cache's config, None for an image or index that is no cache"""

    config: Object | None
    blobs: dict[str, CacheBlob]


def manifest(layers: Sequence[Object], config: Object, image: bool, oci: bool) -> Object:
    """The document. layers: their descriptors; config: descriptor; image: the form of an image's manifest"""
    if image:
        return documents.manifest_document(config, list(layers))
    kind = documents.OCI_INDEX if oci else documents.DOCKER_LIST
    return {"schemaVersion": 2, "mediaType": kind, "manifests": [*layers, config]}


def read(document: Object) -> CacheManifest:
    """What a manifest or index of a cache names. Raises Invalid."""
    if "manifests" in document:
        entries = _entries(document["manifests"])
        config = next((each for each in entries if each.get("mediaType") == cacheconfig.MEDIA_TYPE), None)
        layers = [each for each in entries if each is not config]
    else:
        config = documents.descriptor_of(document.get("config"), "cache")
        config = config if config.get("mediaType") == cacheconfig.MEDIA_TYPE else None
        layers = _entries(document.get("layers") or [])
    blobs = {}
    for each in layers:
        annotations = each.get("annotations")
        diff_id = annotations.get(UNCOMPRESSED) if isinstance(annotations, dict) else None
        if isinstance(diff_id, str):
            check_digest(diff_id)
            part = documents.descriptor(str(each.get("mediaType") or ""), each["digest"], each["size"])
            blobs[each["digest"]] = CacheBlob(part, diff_id)
    return CacheManifest(config, blobs)


def _entries(found: object) -> list[Object]:
    if not isinstance(found, list) or len(found) > _MOST_BLOBS:
        raise Invalid("invalid cache: it has no list of blobs, or one that is too long")
    return [documents.descriptor_of(each, "cache") for each in found]

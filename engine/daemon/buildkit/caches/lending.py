"""Lends a build the results of the caches that its client has named, and of no other.

A result is found by the identity of a step, which says all that decides what the step makes. What was lent serves the
one build that named the cache: it is never kept as the engine's own result, nor shown to a build beside it, since
whoever fills a cache could claim anything of it (CVE-2024-24557). That a blob is the layer that the cache takes it for
is looked at, too (`Keeper.borrowed`). A thread of its own reads the caches when the build begins; any
thread of the build may ask, and waits for that without a lock.
"""

import base64
import binascii
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence

from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.buildkit.caches import cacheconfig, manifests, written
from engine.daemon.buildkit.caches.cacheplaces import CachePlace
from engine.daemon.buildkit.caches.manifests import CacheBlob
from engine.daemon.buildkit.progress import Progress
from engine.daemon.images import image as documents
from engine.daemon.jsontext import Object
from engine.daemon.runtime import worker
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid
from engine.kernel import reasons

_INLINE = "moby.buildkit.cache.v0"
_LOOK_SECONDS = 0.2
_MOST_IMAGES = 32  # of one index whose images have caches inside
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """What a cache has. results: digest of a record → the blobs of its layers, lowest first; blobs: by their digests"""

    results: dict[str, list[str]] = field(default_factory=dict)
    blobs: dict[str, CacheBlob] = field(default_factory=dict)


def known(place: CachePlace) -> Known:
    """Read what a cache has, or the caches inside an image or an index of images. Raises EngineErrors."""
    document = documents.load(place.document(), "cache manifest")
    found = manifests.read(document)
    if found.config is not None:
        data = place.small(found.config["digest"], cacheconfig.LARGEST)
        return Known(cacheconfig.load(data).results(), found.blobs)
    if "manifests" not in document:
        return _inline(place, document)
    whole = Known()
    for entry in documents.index_entries(document)[:_MOST_IMAGES]:
        one = _inline(place, documents.load(place.nested(entry["digest"]), "manifest"))
        whole.results |= one.results
        whole.blobs |= one.blobs
    return whole


def _inline(place: CachePlace, manifest: Object) -> Known:
    """The cache inside an image's config; nothing for an image that has none."""
    config_part, layers = documents.manifest_parts(manifest)
    if config_part.get("mediaType") not in documents.CONFIGS:
        return Known()
    config = documents.load(place.small(config_part["digest"], documents.LARGEST_DOCUMENT), "image config")
    said = config.get(_INLINE)
    diff_ids = documents.diff_ids_of(config) if isinstance(config.get("rootfs"), dict) else []
    if not isinstance(said, str) or len(diff_ids) != len(layers):
        return Known()
    try:
        data = base64.b64decode(said, validate=True)
    except binascii.Error as error:
        raise Invalid(f"invalid cache inside an image: {error}") from error
    blobs = {
        part["digest"]: CacheBlob(documents.descriptor(part["mediaType"], part["digest"], part["size"]), str(diff_id))
        for part, diff_id in zip(layers, diff_ids, strict=True)
    }
    return Known(cacheconfig.load(data).results(), blobs)


class Lender:
    """The caches of one build. places: where each is, with its name for people"""

    def __init__(
        self, places: Sequence[tuple[str, Callable[[], CachePlace]]], progress: Progress, check: Callable[[], None]
    ) -> None:
        self._places = places
        self._progress = progress
        self._check = check
        self._lock = threading.Lock()
        self._closed = False  # guarded by the lock, as are the next
        self._open: list[tuple[CachePlace, Known]] = []  # complete once `_ready` is set
        self._ready = threading.Event()

    def begin(self) -> None:
        """Begin to read the caches."""
        worker.begin("cache import", self._read_all)

    def wait(self) -> None:
        """Wait until all of them are read, or cannot be. Raises what `check` raises."""
        while not self._ready.wait(_LOOK_SECONDS):
            self._check()

    def lend(self, identity: str, keeper: Keeper) -> Snapshot | None:
        """What a step of that identity has made somewhere else, kept by the build; None where no cache has it.

        A cache that fails is as one that has nothing, and the step is made.
        """
        name = written.key(identity)
        self.wait()
        for place, has in self._open:
            chain = has.results.get(name)
            blobs = [has.blobs[digest] for digest in chain or () if digest in has.blobs]
            if chain is None or len(blobs) != len(chain) or len(blobs) > documents.MOST_LAYERS:
                continue
            try:
                return self._fetched(place, blobs, keeper)
            except (EngineError, OSError) as error:
                self._check()
                log.warning("a result of a cache cannot be used: %s", error)
        return None

    def close(self) -> None:
        """End the connections to the caches."""
        with self._lock:
            self._closed = True
            places = [place for place, _ in self._open]
        for place in places:
            place.close()

    def _read_all(self) -> None:
        try:
            for name, opened in self._places:
                self._read(name, opened)
        finally:
            self._ready.set()

    def _read(self, name: str, opened: Callable[[], CachePlace]) -> None:
        vertex = self._progress.vertex(f"importing cache manifest from {name}")
        vertex.begin()
        try:
            self._know(opened())
        except (EngineError, OSError) as error:
            vertex.end(reasons.whole(error))
        else:
            vertex.end()

    def _know(self, place: CachePlace) -> None:
        """Read what a place has, which is closed where the build does not use it."""
        with contextlib.ExitStack() as stack:
            stack.callback(place.close)
            has = known(place)
            with self._lock:
                if not self._closed:
                    self._open.append((place, has))
                    stack.pop_all()

    def _fetched(self, place: CachePlace, blobs: Sequence[CacheBlob], keeper: Keeper) -> Snapshot:
        tree = Snapshot()
        for blob in blobs:
            self._check()
            tree = tree.above(self._part(place, blob, keeper, tree))
        return tree

    def _part(self, place: CachePlace, blob: CacheBlob, keeper: Keeper, below: Snapshot) -> Part:
        content = keeper.store.content
        digest, size = blob.descriptor["digest"], blob.descriptor["size"]
        keeper.pin([digest])
        if not content.has(digest, size):
            with keeper.incoming() as into:
                place.fetch(digest, size, into)
                into.keep()
        return keeper.borrowed(blob.diff_id, blob.descriptor, below, self._check)

"""Keeps what one build makes and uses, its layers and blobs, from removal until the build ends.

A build has one `Keeper`; all its threads may call it. Results of earlier builds are found through it, and pinned before
they are used.
"""

import contextlib
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NoReturn

from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.images import image as documents
from engine.daemon.images import making
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.layers import comparing
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.jsontext import Object
from engine.daemon.tar.writer import END
from engine.errors import Invalid, NotFound

EMPTY_LAYER = digest_of(END)
"""The diff id of a layer without members."""


class Keeper:
    """A context manager; what it keeps may be removed once it has ended. store: the engine's images

    traces: each step leaves what one of BuildKit's leaves: a layer, if need be one without members, and the
    directories that a command's own file systems were mounted on
    """

    def __init__(self, store: Catalogue, traces: bool = False) -> None:
        self.store = store
        self.traces = traces
        self._session = store.session()
        self._lock = threading.Lock()
        self._layers: dict[str, Layer] = {}  # by diff id; guarded by `_lock`, as are the next
        self._pinned: list[str] = []
        self._held: list[str] = []
        self._images: dict[str, Snapshot] = {}  # by the digest of the manifest

    def __enter__(self) -> "Keeper":
        self._session.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with self.store.changing:
                for identity in self._held:
                    self.store.held[identity] -= 1
                    if not self.store.held[identity]:
                        del self.store.held[identity]
            self.store.content.unpin(self._pinned)
        finally:
            self._session.__exit__(None, None, None)

    @property
    def session(self) -> Session:
        """The session that the layers of this build are unpacked in."""
        return self._session

    def hold(self, image: Image) -> None:
        """Keep an image from every pruning."""
        with self.store.changing:
            self.store.held[image.id] += 1
        with self._lock:
            self._held.append(image.id)

    def packed(self, stream: io.BufferedIOBase, below: Snapshot) -> Part | None:
        """The layer of an uncompressed tar that lies above `below`; None as with `kept`. Raises EngineErrors.

        stream: another thread reads it
        """
        with self.store.content.incoming() as blob:
            layer, form = making.pack(self._session, stream, blob)
            return self.kept(blob, layer, form, below)

    def added(self, blob: Incoming, made: tuple[Layer, str] | None, below: Snapshot) -> Snapshot:
        """The tree with a step's changes, as `commit` has unpacked them, None for none. Raises as `packed` does."""
        if made is not None:
            return below.above(self.kept(blob, *made, below))
        return below.above(self.packed(io.BytesIO(END), below)) if self.traces else below

    def kept(self, blob: Incoming, layer: Layer, form: str, below: Snapshot) -> Part | None:
        """An unpacked layer of the session above `below`, with its blob put into the store; None for one without
        members, where these do not count.

        form: the compression of the blob. Raises Invalid for more layers than an image may have.
        """
        if layer.diff_id == EMPTY_LAYER and not self.traces:
            return None
        if len(below.parts) >= documents.MOST_LAYERS:
            raise Invalid(f"max depth exceeded: {documents.MOST_LAYERS} layers are allowed")
        self.pin([blob.digest])
        descriptor = documents.descriptor(documents.layer_type(form), blob.digest, blob.size)
        blob.keep()
        part = Part(layer, descriptor)
        self._session.settle([each.layer for each in below.above(part).parts])
        return part

    def image(self, image: Image) -> Snapshot:
        """The tree of an image of the store. Raises NotFound where a layer of it is missing."""
        with self._lock:
            known = self._images.get(image.manifest)
        if known is not None:
            return known
        self.hold(image)
        content = self.store.content
        manifest = documents.load(content.read(image.manifest, documents.LARGEST_DOCUMENT), "manifest")
        _, descriptors = documents.manifest_parts(manifest)
        self.pin([each["digest"] for each in descriptors])
        layers = [self._layer(diff_id) for diff_id in image.diff_ids]
        found = Snapshot(tuple(Part(*pair) for pair in zip(layers, descriptors, strict=True)))
        with self._lock:
            self._images[image.manifest] = found
        return found

    def know(self, image: Image, tree: Snapshot) -> None:
        """The build has made this image of this tree, and holds it."""
        with self._lock:
            self._images[image.manifest] = tree

    def part(self, diff_id: str, descriptor: Object) -> Part | None:
        """A layer of the store with its blob, both pinned; None where either has gone."""
        self.pin([descriptor["digest"]])
        if not self.store.content.has(descriptor["digest"], descriptor["size"]):
            return None
        try:
            return Part(self._layer(diff_id), descriptor)
        except NotFound:
            return None

    def borrowed(self, diff_id: str, descriptor: Object, below: Snapshot, check: Callable[[], None]) -> Part:
        """A layer above `below` whose blob is in the store and pinned, unpacked now if it was not before.

        Whoever gives the blob says that it is the layer, so that is looked at also where the layer is there already:
        results of later steps name both. check: called now and then; it raises to end this
        Raises Invalid where the blob is another layer than that, SystemFailure.
        """
        layer = comparing.layer(self._session, self.store.content, descriptor["digest"], diff_id, check)
        part = Part(layer, descriptor)
        self._session.settle([each.layer for each in below.above(part).parts])
        return part

    def _layer(self, diff_id: str) -> Layer:
        with self._lock:
            known = self._layers.get(diff_id)
        if known is None:
            known = self._session.layer(diff_id, _not_there(diff_id))
            with self._lock:
                self._layers[diff_id] = known
        return known

    def pin(self, digests: Iterable[str]) -> None:
        """Keep these blobs, which the store may get later, from removal."""
        names = list(digests)
        self.store.content.pin(names)
        with self._lock:
            self._pinned += names

    @contextlib.contextmanager
    def incoming(self) -> Iterator[Incoming]:
        """A new blob to be written, for `kept`."""
        with self.store.content.incoming() as blob:
            yield blob


def _not_there(diff_id: str) -> Callable[[], NoReturn]:
    def refuse() -> NoReturn:
        raise NotFound(f"the layer {diff_id} is missing")

    return refuse

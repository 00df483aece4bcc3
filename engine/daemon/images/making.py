"""Making new images: a layer and its compressed blob from one tar stream, and the manifest of an image without one.

Runs in the daemon, on the thread that imports, commits or builds. It reads the stream once: what is read is compressed
into the layer's blob and unpacked at the same time. So a large stream takes neither more memory nor a second copy.
"""

import contextlib
import io
from collections.abc import Sequence

from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.layerblob import LayerBlob
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.streams import Buffer, Source
from engine.daemon.tar.compression import Peeked, Unpacked

_CHUNK = 256 * 1024
# Compression formats in which a layer's blob is kept as it came; anything else is stored as `layerblob` says.
_KEPT_FORMS = ("gzip", "zstd")


class _Tee(io.RawIOBase):
    """A raw stream of the bytes of `source`, which also writes them to `sink`."""

    def __init__(self, source: Peeked | Unpacked, sink: Incoming | LayerBlob):
        self._source = source
        self._sink = sink

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with what the source has at once, and write the same to the sink."""
        view = memoryview(buffer)[:_CHUNK]
        count = self._source.readinto(view)
        self._sink.write(view[:count])
        return count

    def drain(self) -> None:
        """Read the rest of the source, so that the sink gets all of it."""
        while self.read(_CHUNK):
            pass


def unpack(session: Session, stream: Source, blob: Incoming) -> tuple[Layer, str]:
    """Unpack a layer from the stream and write its blob; the layer, and the compression of the blob, empty for none."""
    peeked = Peeked(stream)
    if peeked.form in _KEPT_FORMS:
        return _unpacked(session, _Tee(peeked, blob)), peeked.form
    with contextlib.closing(LayerBlob(blob)) as made:
        layer = _unpacked(session, _Tee(Unpacked(peeked), made))
        made.finish()
        return layer, made.form


class _Packing(io.RawIOBase):
    """A raw stream of a tar that is packed while it is read, of which a blob is made too."""

    def __init__(self, packed: io.BufferedIOBase, made: LayerBlob):
        self._packed = packed
        self._made = made

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with what is packed at once."""
        count = self._packed.readinto(buffer)
        self._made.write(memoryview(buffer)[:count])
        return count


def pack(session: Session, packed: io.BufferedIOBase, blob: Incoming) -> tuple[Layer, str]:
    """The same as `unpack`, of a tar that this engine packs while it is read. That is done by another thread.

    packed: its `readinto` never waits for anybody
    """
    with contextlib.closing(LayerBlob(blob)) as made:
        tar = _Packing(packed, made)
        layer = session.unpack(tar, abandon=lambda: None, hashed=made.finish, plain=True)
        return layer, made.form


def squeeze(stream: Source, blob: Incoming) -> tuple[str, str]:
    """Write the blob of a layer, whose tar the stream is, and unpack nothing; the tar's digest, the compression."""
    with contextlib.closing(LayerBlob(blob)) as made:
        while data := stream.read(_CHUNK):
            made.write(data)
        return made.finish(), made.form


def _unpacked(session: Session, tee: _Tee) -> Layer:
    layer = session.unpack(tee)
    tee.drain()
    return layer


def add_made(
    store: Catalogue,
    session: Session,
    config: Object | bytes,
    layer_parts: list[Object],
    image_layers: Sequence[Layer],
    names: Sequence[Reference],
    parent: str = "",
    boot: str = "",
) -> Image:
    """Make the OCI manifest of an image that has none, and add the image. The layers' blobs must be in the store,
    pinned.

    config: the document, or the exact bytes of one whose digest must stay the same; boot: see `Catalogue.add`
    """
    data = config if isinstance(config, bytes) else documents.dump(config)
    config_part = documents.descriptor(documents.OCI_CONFIG, digest_of(data), len(data))
    manifest = documents.dump(documents.manifest_document(config_part, layer_parts))
    target = documents.descriptor(documents.OCI_MANIFEST, digest_of(manifest), len(manifest))
    with store.content.pinned([config_part["digest"], target["digest"]]):
        store.content.put(data)
        store.content.put(manifest)
        blobs = [(part["digest"], part["size"]) for part in (target, config_part, *layer_parts)]
        return store.add(session, target, target["digest"], data, image_layers, blobs, names, parent, boot)

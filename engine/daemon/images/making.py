"""Making an image here: a layer out of a stream, and the manifest of an image that came without one.

Runs in the daemon, on the thread that imports, commits or builds. One pass over the stream: what is read is kept as the
layer's blob and unpacked at the same time, so neither the memory nor a second copy grows with it.
"""

import io
import zlib
from collections.abc import Sequence

from engine.daemon.images import image as documents
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.reference import Reference
from engine.daemon.tar.compression import Peeked, Unpacked

TYPE_CHECKING = False  # as `typing` has it, which a small daemon does without
if TYPE_CHECKING:
    from engine.daemon.images.store import ImageStore

# Half the size for a tenth of the time that the best level takes: somebody waits for it.
_LEVEL = 1
_CHUNK = 256 * 1024
# Compressions that a layer may be in by itself; anything else is stored as gzip.
_KEPT_FORMS = ("gzip", "zstd")


class _Tee(io.RawIOBase):
    """Bytes read through it are also written into a blob, compressed on the way when `squeeze`."""

    def __init__(self, source: io.BufferedIOBase, blob: Incoming, squeeze: bool):
        self._source = source
        self._blob = blob
        self._gzip = zlib.compressobj(_LEVEL, wbits=31) if squeeze else None

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:
        """See io.RawIOBase."""
        data = self._source.read(min(len(buffer), _CHUNK))
        buffer[: len(data)] = data
        self._blob.write(self._gzip.compress(data) if self._gzip else data)
        return len(data)

    def finish(self) -> None:
        """Write what is left: the rest of the source, then the compressor's."""
        while self.read(_CHUNK):
            pass
        if self._gzip:
            self._blob.write(self._gzip.flush())


def unpack(session: object, stream: io.BufferedIOBase, blob: Incoming) -> tuple[object, str]:
    """The layer unpacked from the stream, its blob filled on the way, and the compression that the blob is in."""
    peeked = Peeked(stream)
    kept = peeked.form in _KEPT_FORMS
    tee = _Tee(peeked if kept else Unpacked(peeked), blob, squeeze=not kept)
    layer = session.unpack(tee)
    tee.finish()
    return layer, peeked.form if kept else "gzip"


def add_made(
    store: "ImageStore",
    session: object,
    config: dict | bytes,
    layer_parts: list[dict],
    image_layers: Sequence,
    names: Sequence[Reference],
    parent: str = "",
    boot: str = "",
) -> Image:
    """Make the OCI manifest of an image that came without one, and add the image. The layers' blobs are there, pinned.

    config: the document, or the exact bytes of one that must keep its digest; boot: see `ImageStore.add`
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

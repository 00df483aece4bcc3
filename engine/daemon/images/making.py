"""Making an image here: a layer out of a stream, and the manifest of an image that came without one.

Runs in the daemon, on the thread that imports, commits or builds. One pass over the stream: what is read is kept as the
layer's blob and unpacked at the same time, so neither the memory nor a second copy grows with it.
"""

import collections
import contextlib
import io
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.images.image import Image
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.streams import Buffer, Source
from engine.daemon.tar.compression import Peeked, Unpacked

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Half the size for a tenth of the time that the best level takes: somebody waits for it.
_LEVEL = 1
_CHUNK = 256 * 1024
_BLOCK = 1024 * 1024
# zlib lets go of the interpreter's lock, so that blocks are squeezed beside the unpacking. More would only take memory.
_THREADS = 2
_MOST_WAITING = 4
# Compressions that a layer may be in by itself; anything else is stored as gzip.
_KEPT_FORMS = ("gzip", "zstd")


class _Squeezer:
    """gzip of what is written to it, put into a blob: block by block, on threads once there is more than one block.

    Every block is a member of its own, which any reader of gzip takes as one stream (RFC 1952 section 2.2).
    """

    def __init__(self, blob: Incoming):
        self._blob = blob
        self._block = bytearray()
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: collections.deque[Future[bytes]] = collections.deque()
        self._members = 0

    def write(self, data: bytes) -> None:
        """Take more; raises what the blob raises."""
        self._block += data
        if len(self._block) >= _BLOCK:
            self._submit()

    def finish(self) -> None:
        """Write what is left."""
        if self._block or not self._members:
            self._submit()
        self._settle(0)

    def close(self) -> None:
        """End the threads, whatever they still had to do."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        block, self._block = self._block, bytearray()
        self._members += 1
        if self._pool is None:
            if len(block) < _BLOCK:
                self._blob.write(_squeezed(block))
                return
            from concurrent.futures import ThreadPoolExecutor  # an idle daemon does without

            self._pool = ThreadPoolExecutor(_THREADS, "squeeze")
        self._waiting.append(self._pool.submit(_squeezed, block))
        self._settle(_MOST_WAITING)

    def _settle(self, most: int) -> None:
        """Write blocks in their order until no more than `most` are on their way."""
        while len(self._waiting) > most:
            self._blob.write(self._waiting.popleft().result())


def _squeezed(block: bytearray) -> bytes:
    return zlib.compress(block, _LEVEL, wbits=31)


class _Tee(io.RawIOBase):
    """Bytes read through it are also written into `sink`."""

    def __init__(self, source: Source, sink: Incoming | _Squeezer):
        self._source = source
        self._sink = sink

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer as far as the source has bytes at once, and give the sink the same."""
        view = memoryview(buffer)
        data = self._source.read(min(len(view), _CHUNK))
        view[: len(data)] = data
        self._sink.write(data)
        return len(data)

    def drain(self) -> None:
        """Read the rest."""
        while self.read(_CHUNK):
            pass


def unpack(session: Session, stream: Source, blob: Incoming) -> tuple[Layer, str]:
    """The layer unpacked from the stream, its blob filled on the way, and the compression that the blob is in."""
    peeked = Peeked(stream)
    if peeked.form in _KEPT_FORMS:
        return _unpacked(session, _Tee(peeked, blob)), peeked.form
    with contextlib.closing(_Squeezer(blob)) as squeezer:
        layer = _unpacked(session, _Tee(Unpacked(peeked), squeezer))
        squeezer.finish()
    return layer, "gzip"


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
    """Make the OCI manifest of an image that came without one, and add the image. The layers' blobs are there, pinned.

    config: the document, or the exact bytes of one that must keep its digest; boot: see `Catalogue.add`
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

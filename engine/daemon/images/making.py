"""Making new images: a layer and its compressed blob from one tar stream, and the manifest of an image without one.

Runs in the daemon, on the thread that imports, commits or builds. It reads the stream once: what is read is compressed
into the layer's blob and unpacked at the same time. So a large stream takes neither more memory nor a second copy.
"""

import collections
import contextlib
import io
import struct
import zlib
from collections.abc import Sequence

from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Incoming, digest_of, sha256
from engine.daemon.images.image import Image
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.images.reference import Reference
from engine.daemon.jsontext import Object
from engine.daemon.streams import Buffer, Source
from engine.daemon.tar.compression import Peeked, Unpacked
from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# gzip's level. It gives half the size in a tenth of the time that the best level takes, and a client waits for it.
_LEVEL = 1
_CHUNK = 256 * 1024
_BLOCK = 1024 * 1024
# Places in a block, and the bytes there, that tell whether it is worth the work: what is compressed already only costs
# time, a second for each 50 MB.
_SAMPLES, _SAMPLE = 4, 4096
# A gzip member without a name or a time; the head of a stored piece, which is the last one or not; checksum and size
# (RFC 1952 section 2.3).
_GZIP_HEAD, _STORED_HEAD, _GZIP_TAIL = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", struct.Struct("<BHH"), struct.Struct("<II")
_MOST_STORED = 0xFFFF
# zlib releases the interpreter lock, so threads compress blocks beside the unpacking. More threads would only take
# memory.
_THREADS = 2
_MOST_WAITING = 4
# Compression formats in which a layer's blob is kept as it came; anything else is stored as gzip.
_KEPT_FORMS = ("gzip", "zstd")


class _Squeezer:
    """Compresses what is written to it into a blob with gzip, block by block; on threads if there are several blocks,
    one of which writes the blob.

    Every block is a gzip member of its own. Any reader of gzip takes these as one stream (RFC 1952 section 2.2).
    """

    def __init__(self, blob: Incoming):
        self._blob = blob
        self._block = bytearray()
        self._pool: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._waiting: collections.deque[Future[None]] = collections.deque()
        self._members = 0

    def write(self, data: bytes | memoryview) -> None:
        """Compress more bytes; raises what writing to the blob raises."""
        self._block += data
        if len(self._block) >= _BLOCK:
            self._submit()

    def finish(self) -> None:
        """Compress and write what is left."""
        if self._block or not self._members:
            self._submit()
        self._settle(0)

    def close(self) -> None:
        """End the threads, and drop the blocks that they have not begun."""
        for threads in (self._pool, self._writer):
            if threads is not None:
                threads.shutdown(cancel_futures=True)

    def _submit(self) -> None:
        block, self._block = self._block, bytearray()
        self._members += 1
        if self._pool is None or self._writer is None:
            if len(block) < _BLOCK:
                self._blob.write(_squeezed(block))
                return
            from concurrent.futures import ThreadPoolExecutor  # imported late: an idle daemon does not need it

            self._pool, self._writer = ThreadPoolExecutor(_THREADS, "squeeze"), ThreadPoolExecutor(1, "write-blob")
        self._waiting.append(self._writer.submit(self._write, self._pool.submit(_squeezed, block)))
        self._settle(_MOST_WAITING)

    def _settle(self, most: int) -> None:
        """Wait until no more than `most` blocks are not written; raises what writing one has raised."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    def _write(self, squeezed: "Future[bytes]") -> None:
        self._blob.write(squeezed.result())


def _squeezed(block: bytearray) -> bytes:
    return zlib.compress(block, _LEVEL, wbits=31) if _shrinks(block) else _stored(block)


def _stored(block: bytearray) -> bytes:
    """A gzip member that has the block as it is (RFC 1951 section 3.2.4); zlib takes five times as long for that."""
    view = memoryview(block)
    pieces: list[bytes | memoryview] = [_GZIP_HEAD]
    for at in range(0, len(block), _MOST_STORED):
        piece = view[at : at + _MOST_STORED]
        last = at + len(piece) == len(block)
        pieces += (_STORED_HEAD.pack(last, len(piece), len(piece) ^ 0xFFFF), piece)
    return b"".join((*pieces, _GZIP_TAIL.pack(zlib.crc32(block), len(block))))


def _shrinks(block: bytearray) -> bool:
    """Whether compressing a block would save more than a fiftieth of it, as samples of it say."""
    step = len(block) // _SAMPLES
    if step < _SAMPLE:
        return True
    # Not at its beginning, where the header of a tar stands.
    places = range(step // 2, len(block) - _SAMPLE, step)
    sample = b"".join(block[place : place + _SAMPLE] for place in places)
    return len(zlib.compress(sample, _LEVEL)) < len(sample) - len(sample) // 50


class _Tee(io.RawIOBase):
    """A raw stream of the bytes of `source`, which also writes them to `sink`."""

    def __init__(self, source: Peeked | Unpacked, sink: Incoming | _Squeezer):
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
    """Unpack a layer from the stream and write its blob; returns the layer, and the compression format of the blob."""
    peeked = Peeked(stream)
    if peeked.form in _KEPT_FORMS:
        return _unpacked(session, _Tee(peeked, blob)), peeked.form
    with contextlib.closing(_Squeezer(blob)) as squeezer:
        layer = _unpacked(session, _Tee(Unpacked(peeked), squeezer))
        squeezer.finish()
    return layer, "gzip"


class _Squeezing(io.RawIOBase):
    """A raw stream of a tar that is packed while it is read, which also compresses it into a blob."""

    def __init__(self, packed: io.BufferedIOBase, squeezer: _Squeezer):
        self._packed = packed
        self._squeezer = squeezer

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with what is packed at once."""
        count = self._packed.readinto(buffer)
        self._squeezer.write(memoryview(buffer)[:count])
        return count


def pack(session: Session, packed: io.BufferedIOBase, blob: Incoming) -> tuple[Layer, str]:
    """The same as `unpack`, of a tar that this engine packs while it is read. That is done by another thread.

    packed: its `readinto` never waits for anybody
    """
    with contextlib.closing(_Squeezer(blob)) as squeezer:
        layer = session.unpack(_Squeezing(packed, squeezer), abandon=lambda: None, plain=True)
        squeezer.finish()
    return layer, "gzip"


def squeeze(stream: Source, blob: Incoming) -> str:
    """Write the blob of a layer, whose tar the stream is, and unpack nothing; returns the digest of the tar."""
    hasher = sha256()
    with contextlib.closing(_Squeezer(blob)) as squeezer:
        while data := stream.read(_CHUNK):
            hasher.update(data)
            squeezer.write(data)
        squeezer.finish()
    return f"sha256:{hasher.hexdigest()}"


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

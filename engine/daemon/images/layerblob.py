"""The blob of a layer that is made here: gzip, or the tar itself where that does not shrink.

Runs on the thread that makes the layer, and on threads of its own where the layer is more than one block. Pictures,
archives and other people's compressed files do not shrink: their gzip would be as large as their tar, and would take a
second digest, a checksum and a copy of all of it.
"""

import collections
import mmap
import os
import struct
import zlib

from engine.daemon.images.content import Incoming, sha256
from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# gzip's level. It gives half the size in a tenth of the time that the best level takes, and a client waits for it.
_LEVEL = 1
_BLOCK = 1024 * 1024
# Places in a block, and the bytes there, that tell whether it is worth the work: what is compressed already only costs
# time, a second for each 50 MB.
_SAMPLES, _SAMPLE = 4, 4096
# A gzip member without a name or a time; the head of a stored piece, which is the last one or not; checksum and size
# (RFC 1952 section 2.3).
_GZIP_HEAD, _STORED_HEAD, _GZIP_TAIL = b"\x1f\x8b\x08\0\0\0\0\0\0\xff", struct.Struct("<BHH"), struct.Struct("<II")
_MOST_STORED = 0xFFFF
# A blob that begins as the tar itself stays so while no more than this part of it would shrink.
_FEW = 16
# zlib releases the interpreter lock, so threads compress blocks beside the unpacking. More threads would only take
# memory.
_THREADS = 2
_MOST_WAITING = 4


class LayerBlob:
    """Makes the blob of the tar that is written to it, block by block; on threads if there are several blocks, one of
    which writes the blob.

    The first whole block decides whether the blob is gzip. Every block is a gzip member of its own then. Any reader of
    gzip takes these as one stream (RFC 1952 section 2.2). A blob that has begun as the tar itself is written anew where
    too much of what follows would shrink.
    """

    def __init__(self, blob: Incoming):
        self._blob = blob
        self._block, self._filled = mmap.mmap(-1, _BLOCK), 0
        self._free: collections.deque[mmap.mmap] = collections.deque()
        self._pool: ThreadPoolExecutor | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._waiting: collections.deque[Future[None]] = collections.deque()
        self._begun = False
        # Of the thread that writes the blob.
        self._tar = sha256()  # what was written, while the blob is gzip
        self._plain = False
        self._written = self._shrinking = 0  # blocks; of the plain blob, those that would shrink

    @property
    def form(self) -> str:
        """The compression of the finished blob: `gzip`, or empty for none."""
        return "" if self._plain else "gzip"

    def write(self, data: bytes | memoryview) -> None:
        """Take more bytes; raises what writing to the blob raises."""
        left = memoryview(data)
        while left:
            taken = min(len(left), _BLOCK - self._filled)
            self._block[self._filled : self._filled + taken] = left[:taken]
            self._filled += taken
            left = left[taken:]
            if self._filled == _BLOCK:
                self._submit()

    def finish(self) -> str:
        """Write what is left; returns the digest of the tar."""
        if self._filled or not self._begun:
            self._submit()
        self._settle(0)
        return self._blob.digest if self._plain else f"sha256:{self._tar.hexdigest()}"

    def close(self) -> None:
        """End the threads, and drop all blocks: a cycle of references keeps this object until the next collection."""
        for threads in (self._pool, self._writer):
            if threads is not None:
                threads.shutdown(cancel_futures=True)
        self._waiting.clear()
        self._free.clear()
        del self._block

    def _submit(self) -> None:
        block, count = self._block, self._filled
        self._begun, self._filled = True, 0
        if self._pool is None or self._writer is None:
            if count < _BLOCK:
                view = memoryview(block)[:count]
                self._tar.update(view)
                self._blob.write(_squeezed(view) or _stored(view))
                return
            from concurrent.futures import ThreadPoolExecutor  # imported late: an idle daemon does not need it

            self._pool, self._writer = ThreadPoolExecutor(_THREADS, "squeeze"), ThreadPoolExecutor(1, "write-blob")
        squeezed = self._pool.submit(_squeezed, memoryview(block)[:count])
        self._waiting.append(self._writer.submit(self._write, squeezed, block, count))
        self._settle(_MOST_WAITING)
        self._block = self._free.popleft() if self._free else mmap.mmap(-1, _BLOCK)

    def _settle(self, most: int) -> None:
        """Wait until no more than `most` blocks are not written; raises what writing one has raised."""
        while len(self._waiting) > most:
            self._waiting.popleft().result()

    # On the thread that writes the blob.

    def _write(self, squeezed: "Future[bytes | None]", block: mmap.mmap, count: int) -> None:
        made, view = squeezed.result(), memoryview(block)[:count]
        if not self._written:
            self._plain = made is None
        self._written += 1
        if self._plain and made is not None and count == _BLOCK:
            self._shrinking += 1
            if self._shrinking > self._written // _FEW:
                self._begin_anew()
        if not self._plain:
            self._tar.update(view)
            self._blob.write(_stored(view) if made is None else made)
        elif count == _BLOCK:
            self._blob.write_pages(view)
        else:
            self._blob.write(view)
        self._free.append(block)

    def _begin_anew(self) -> None:
        """Make gzip of the tar that was written so far."""
        self._plain = False
        older, self._tar = self._blob.anew()
        try:
            buffer = memoryview(bytearray(_BLOCK))
            while count := os.readv(older, [buffer]):
                self._blob.write(_stored(buffer[:count]))
        finally:
            os.close(older)


def _squeezed(block: memoryview) -> bytes | None:
    """The block as a gzip member; None if it does not shrink."""
    return zlib.compress(block, _LEVEL, wbits=31) if _shrinks(block) else None


def _stored(block: memoryview) -> bytes:
    """A gzip member that has the block as it is (RFC 1951 section 3.2.4); zlib takes five times as long for that."""
    pieces: list[bytes | memoryview] = [_GZIP_HEAD]
    for at in range(0, len(block), _MOST_STORED):
        piece = block[at : at + _MOST_STORED]
        last = at + len(piece) == len(block)
        pieces += (_STORED_HEAD.pack(last, len(piece), len(piece) ^ 0xFFFF), piece)
    return b"".join((*pieces, _GZIP_TAIL.pack(zlib.crc32(block), len(block))))


def _shrinks(block: memoryview) -> bool:
    """Whether compressing a block would save more than a fiftieth of it, as samples of it say."""
    step = len(block) // _SAMPLES
    if step < _SAMPLE:
        return True
    # Not at its beginning, where the header of a tar stands.
    places = range(step // 2, len(block) - _SAMPLE, step)
    sample = b"".join(block[place : place + _SAMPLE] for place in places)
    return len(zlib.compress(sample, _LEVEL)) < len(sample) - len(sample) // 50

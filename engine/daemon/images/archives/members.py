"""Reading the files of an image archive into the content store, and unpacking its layers while they arrive.

Runs in the daemon. The request's thread reads the archive, hashes each file and keeps it as a blob. A second thread
unpacks the member that is arriving, if it looks like a layer. Usually the archive says only at its end which members
are layers. So blobs and layers that no image needs are removed again, and a layer that could not be unpacked is an
error only if an image needs it. Members' names are keys of a table and are never used as paths.
"""

import io
import posixpath
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from engine.annotating import Protocol
from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.content import Content
from engine.daemon.images.layers import comparing
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.jsontext import Object
from engine.daemon.store import images as table
from engine.daemon.streams import Buffer
from engine.daemon.tar import compression
from engine.daemon.tar import reader as tar
from engine.errors import Invalid, NotFound, Unavailable

Progress = Callable[[Object], None]

# Enough for images and their layers, also in the oldest format with three files for each layer. An archive with more
# members is no archive of images.
MOST_MEMBERS = 10_000
# Characters of all names and links together, which stay in memory.
_MOST_TEXT = 4 << 20
_MOST_LINKS = 8
_BLOBS = "blobs/sha256/"
_BLOB = re.compile(r"blobs/(sha256)/([a-f0-9]{64})")
# Size and number of the pieces queued between the thread that reads and the one that unpacks. There are enough that
# neither thread waits for the other's disk. They are large, because each one makes the threads switch at the
# interpreter lock.
PIECE = 1 << 20
_PIECES = 4
_EMPTY = bytes(tar.BLOCK)
_TELL_SECONDS = 0.1
_SHORT = 12


class Bundle(Protocol):
    """The files of images by name, and their blobs: of an archive, or of another engine's store."""

    def find(self, name: str, /) -> tuple[str, int] | None:
        """Digest and size of a file; None when there is no such file."""

    def document(self, name: str, /) -> bytes | None:
        """The bytes of a file, None when there is none. Raises Invalid when it is larger than a document may be."""

    def has(self, part: Object, /) -> bool:
        """Whether the blob of this descriptor is there."""

    def blob(self, part: Object, /) -> Object:
        """The descriptor itself, once its blob is in the content store. Raises Invalid, NotFound."""

    def keeps(self, part: Object, /) -> bool:
        """Whether the content store has the blob of this descriptor, which is kept from removal then."""

    def layers(self, digests: Sequence[str], diff_ids: Sequence[str], /) -> "list[Layer]":
        """The layers of one image, lowest first, unpacked. Raises Invalid, NotFound, SystemFailure."""

    def layer_of(self, digest: str, /) -> "Layer":
        """The layer in the blob `digest`, unpacked now, where its diff id is not known."""


class Members:
    """The files of one archive by name, as blobs in the content store that are pinned until `close`.

    session: keeps the layers that are unpacked on the way, until it ends
    progress: called with progress messages of the API
    """

    def __init__(self, store: Catalogue, session: Session, progress: Progress):
        self._store = store
        self._content = store.content
        self._session = session
        self._progress = progress
        self._files: dict[str, tuple[str, int]] = {}
        self._links: dict[str, str] = {}
        self._pinned: list[str] = []
        self._text = 0

    def close(self) -> None:
        """Unpin the blobs, and remove those that belong to no image by now."""
        self._content.unpin(self._pinned)
        self._store.drop_unheld(dict.fromkeys(self._pinned))

    def read(self, reader: tar.TarReader) -> None:
        """Read the whole archive and keep each of its files as a blob. Raises Invalid, SystemFailure."""
        for number, entry in enumerate(reader):
            self._text += len(entry.name) + len(entry.link)
            if number >= MOST_MEMBERS or self._text > _MOST_TEXT:
                raise Invalid(f"invalid archive: more than {MOST_MEMBERS} files, or their names are too long")
            name = _normal(entry.name)
            if entry.kind == tar.DIRECTORY:
                continue
            # Of two members with one name another program may use the other one, and so see another image.
            if name in self._files or name in self._links:
                raise Invalid(f"invalid archive: {entry.name!r} occurs twice")
            if entry.kind == tar.FILE and entry.fragments is None:
                self._file(name, entry, reader)
            elif entry.kind == tar.SYMLINK:
                self._links[name] = _normal(posixpath.join("/", posixpath.dirname(name), entry.link))
            elif entry.kind == tar.LINK:
                self._links[name] = _normal(entry.link)
            else:
                raise Invalid(f"invalid archive: {entry.name!r} is not a regular file")

    def _file(self, name: str, entry: tar.Entry, reader: tar.TarReader) -> None:
        said = _BLOB.fullmatch(name)
        digest = f"{said[1]}:{said[2]}" if said else ""
        if digest:
            self._pin(digest)
        pieces = reader.chunks(PIECE)
        here = bool(digest) and self._content.has(digest, entry.size)
        if here:
            # The blob that is in the store was verified when it came, but its disk or an earlier release may have
            # damaged it.
            pieces = _differing(self._content, digest, pieces)
        first = next(pieces, b"")
        if here and not first:
            self._files[name] = digest, entry.size
            return
        unpacking = None
        told = _Telling(self._progress, digest, name, entry.size)
        with self._content.incoming() as blob:
            if self._is_layer(first) and not self._is_unpacked(digest):
                unpacking = _Unpacking(self._session, lambda: blob.digest)
            try:
                while first:
                    blob.write(first)
                    if unpacking:
                        unpacking.write(first)
                        told.at(blob.size)
                    first = next(pieces, b"")
            except BaseException:
                if unpacking:
                    unpacking.abort()
                raise
            if unpacking:
                unpacking.finish()
            if here and blob.digest != digest:  # the archive's is the damaged one
                self._files[name] = digest, entry.size
                return
            self._pin(blob.digest)
            self._files[name] = blob.digest, blob.size
            blob.keep()

    def _pin(self, digest: str) -> None:
        self._content.pin([digest])
        self._pinned.append(digest)

    def _is_layer(self, first: bytes) -> bool:
        """Whether a file with these first bytes may be a layer: a tar, or anything in a known compression."""
        return bool(compression.detect(first)) or _is_tar(first)

    def _is_unpacked(self, digest: str) -> bool:
        """Whether an unpacked layer has this digest as its diff id; False for an empty digest."""
        if not digest:
            return False
        with self._store.database.reading() as connection:
            return table.layer_by_diff_id(connection, digest) is not None

    # Afterwards

    def find(self, name: str) -> tuple[str, int] | None:
        """digest and size of a file, found through the archive's own links; None when there is no such file.

        Raises Invalid for too many links.
        """
        name = _normal(name)
        for _ in range(_MOST_LINKS):
            if name in self._files:
                return self._files[name]
            if name not in self._links:
                return None
            name = self._links[name]
        raise Invalid(f"invalid archive: too many links at {name!r}")

    def document(self, name: str) -> bytes | None:
        """The bytes of a file, None when there is none. Raises Invalid when it is larger than a document may be."""
        found = self.find(name)
        return found and self._content.read(found[0], documents.LARGEST_DOCUMENT)

    def has(self, part: Object) -> bool:
        """Whether the archive has a file named after the descriptor's blob, or the content store has the blob."""
        return self._member(part) is not None or self._content.has(part["digest"], part["size"])

    def blob(self, part: Object) -> Object:
        """The descriptor itself, if its blob is in the archive or in the store with that digest and size.

        Raises Invalid when the archive's blob is another one, NotFound when there is none.
        """
        found = self._member(part)
        if found is not None and found != (part["digest"], part["size"]):
            raise Invalid(f"invalid archive: the blob {part['digest']} has digest {found[0]} and {found[1]} bytes")
        if found is None and not self.keeps(part):
            raise NotFound(f"content digest {part['digest']}: not found")
        return part

    def keeps(self, part: Object) -> bool:
        """Whether the content store has the blob of this descriptor, which is pinned."""
        self._pin(part["digest"])
        return self._content.has(part["digest"], part["size"])

    def _member(self, part: Object) -> tuple[str, int] | None:
        """The file that is named after the descriptor's blob; None for an empty one, which stands for what is here."""
        found = self.find(_BLOBS + part["digest"].partition(":")[2])
        return found if found is None or found[1] or not part["size"] else None

    def layers(self, digests: Sequence[str], diff_ids: Sequence[str]) -> "list[Layer]":
        """The layers of one image, lowest first, which were unpacked while they arrived, or are unpacked now."""
        return [
            comparing.layer(self._session, self._content, *each, check=lambda: None)
            for each in zip(digests, diff_ids, strict=True)
        ]

    def layer_of(self, digest: str) -> "Layer":
        """The layer in the blob `digest`, unpacked now, where its diff id is not known."""
        with self._content.open(digest) as blob:
            return self._session.unpack(blob)


def _differing(content: Content, digest: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """All of a file, where it is not the very same as the blob, and else nothing."""
    same = 0
    with content.open(digest) as blob:
        for piece in pieces:
            if blob.read(len(piece)) != piece:
                blob.seek(0)
                while data := blob.read(min(same, PIECE)):
                    yield data
                    same -= len(data)
                yield piece
                yield from pieces
            same += len(piece)


def _normal(name: str) -> str:
    return posixpath.normpath("/" + name).lstrip("/")


def _is_tar(first: bytes) -> bool:
    """Whether the bytes begin with a tar header, or are an empty tar (only its end), which is a layer too."""
    block = first[: tar.BLOCK]
    if len(block) < tar.BLOCK:
        return False
    if block == _EMPTY:
        return len(first) <= 20 * tar.BLOCK
    text = block[148:156].strip(b" \0")
    # The checksum is computed with blanks in the place of the checksum itself.
    return text.isdigit() and not text.strip(b"01234567") and sum(block) - sum(block[148:156]) + 256 == int(text, 8)


class _Unpacking:
    """A layer that a thread unpacks into the session while the caller writes the layer's bytes to it.

    The caller must end it by `finish` or `abort`.
    hashed: the digest of all that was written, once `finish` was called
    """

    def __init__(self, session: Session, hashed: Callable[[], str]):
        self._session = session
        self._hashed = hashed
        self._feed = _Feed()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="unpack", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            layer = self._session.unpack(self._feed, hashed=self._hashed)
            comparing.learn(self._hashed(), layer.diff_id)
        except (Invalid, Unavailable):
            pass  # no layer, or a damaged one: only an image that needs it fails, when it asks for it
        except BaseException as error:  # raised again in the thread that writes or waits
            self._failure = error
        finally:
            self._feed.drain()

    def write(self, data: bytes) -> None:
        """Give the thread the next bytes. Raises the error of the unpacking if it was a failure of the host."""
        self._feed.pieces.put(data)
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Say that all bytes were written, and wait until the layer is unpacked. Raises as `write` does."""
        self._end(b"")
        if self._failure is not None:
            raise self._failure

    def abort(self) -> None:
        """End the unpacking, because the rest of the bytes will not come."""
        self._end(None)

    def _end(self, mark: bytes | None) -> None:
        self._feed.pieces.put(mark)
        self._thread.join()


class _Feed(io.RawIOBase):
    """The stream that the unpacking thread reads: pieces from a short queue, empty at the end, None for an abort."""

    def __init__(self) -> None:
        self.pieces: queue.Queue[bytes | None] = queue.Queue(_PIECES)
        self._piece = b""
        self._place = 0
        self._ended = False

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer as far as the present piece goes."""
        self._next()
        view, left = memoryview(buffer), memoryview(self._piece)[self._place :]
        count = min(len(view), len(left))
        view[:count] = left[:count]
        self._place += count
        return count

    def _next(self) -> None:
        """Take the next piece where the present one is used up. Raises Invalid after an abort."""
        if self._place == len(self._piece) and not self._ended:
            piece = self.pieces.get()
            self._ended = not piece
            if piece is None:
                raise Invalid("unexpected EOF")
            self._piece, self._place = piece, 0

    def read(self, count: int = -1) -> bytes:
        """The next bytes of the present piece, at most `count`; empty at the end. Raises Invalid after an abort."""
        self._next()
        start = self._place
        self._place = len(self._piece) if count < 0 else min(start + count, len(self._piece))
        return self._piece[start : self._place]

    def drain(self) -> None:
        """Discard what still comes, so that the writing thread does not block on a full queue."""
        self._piece, self._place = b"", 0
        while not self._ended:
            self._ended = not self.pieces.get()


class _Telling:
    """Reports the progress of one layer at intervals; a message for each piece would cost more than the unpacking."""

    def __init__(self, progress: Progress, digest: str, name: str, total: int):
        self._progress = progress
        self._id = (digest.partition(":")[2] or name)[:_SHORT]
        self._total = total
        self._next = 0.0

    def at(self, current: int) -> None:
        """Report that so many bytes have come, if the last report is long enough ago or these are all."""
        now = time.monotonic()
        if now >= self._next or current == self._total:
            self._next = now + _TELL_SECONDS
            detail = {"current": current, "total": self._total}
            self._progress({"status": "Loading layer", "progressDetail": detail, "id": self._id})

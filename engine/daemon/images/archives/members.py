"""The files of an image archive as they arrive: each kept once, as a blob, and the layers unpacked meanwhile.

Runs in the daemon: the request's thread reads the archive, hashes and writes; one thread more unpacks the member that
is arriving, if it looks like a layer. Whether it is one the archive says at its end, as a rule, so what no image turns
out to need is removed again, and what could not be unpacked is told only if an image needs it. Members' names are keys
of a table and never paths.
"""

import io
import posixpath
import queue
import re
import threading
import time
from collections.abc import Callable

from engine.daemon.images import image as documents
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.layers.store import Layer, Session
from engine.daemon.jsontext import Object
from engine.daemon.store import images as table
from engine.daemon.streams import Buffer
from engine.daemon.tar import compression
from engine.daemon.tar import reader as tar
from engine.errors import Invalid, NotFound, Unavailable

Progress = Callable[[Object], None]

# Images, their layers, and in the oldest form three files for each; an archive with more is none of images.
MOST_MEMBERS = 10_000
# Of names and links together, which stay in memory.
_MOST_TEXT = 4 << 20
_MOST_LINKS = 8
_BLOBS = "blobs/sha256/"
_BLOB = re.compile(r"blobs/(sha256)/([a-f0-9]{64})")
# Pieces between the thread that reads and the one that unpacks: enough that neither waits for the other's disk, and
# large, because the two take turns at the interpreter at each of them.
PIECE = 1 << 20
_PIECES = 4
_EMPTY = bytes(tar.BLOCK)
_TELL_SECONDS = 0.1
_SHORT = 12


class Members:
    """The files of one archive: name → digest and size in the content store, where they are pinned until `close`.

    session: holds the layers that were unpacked on the way, as long as it lasts
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
        """Let go of the blobs: what no image holds by now is removed."""
        self._content.unpin(self._pinned)
        self._store.drop_unheld(dict.fromkeys(self._pinned))

    def read(self, reader: tar.TarReader) -> None:
        """Keep every file that the archive holds. Raises Invalid, SystemFailure."""
        for number, entry in enumerate(reader):
            self._text += len(entry.name) + len(entry.link)
            if number >= MOST_MEMBERS or self._text > _MOST_TEXT:
                raise Invalid(f"invalid archive: more than {MOST_MEMBERS} files, or their names are too long")
            name = _normal(entry.name)
            if entry.kind == tar.DIRECTORY:
                continue
            # Whichever of two counted, another reader might take the other one: the image would be two.
            if name in self._files or name in self._links:
                raise Invalid(f"invalid archive: {entry.name!r} is in it twice")
            if entry.kind == tar.FILE and entry.fragments is None:
                self._file(name, entry, reader)
            elif entry.kind == tar.SYMLINK:
                self._links[name] = _normal(posixpath.join("/", posixpath.dirname(name), entry.link))
            elif entry.kind == tar.LINK:
                self._links[name] = _normal(entry.link)
            else:
                raise Invalid(f"invalid archive: {entry.name!r} is no plain file")

    def _file(self, name: str, entry: tar.Entry, reader: tar.TarReader) -> None:
        said = _BLOB.fullmatch(name)
        digest = f"{said[1]}:{said[2]}" if said else ""
        if digest:
            self._pin(digest)
            if self._content.has(digest, entry.size):
                # What is here was checked when it came; the archive's own copy of it is passed over.
                self._files[name] = digest, entry.size
                return
        pieces = reader.chunks(PIECE)
        first = next(pieces, b"")
        unpacking = None
        told = _Telling(self._progress, digest, name, entry.size)
        with self._content.incoming() as blob:
            if self._is_layer(first) and not self._is_unpacked(digest):
                unpacking = _Unpacking(self._session)
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
            self._pin(blob.digest)
            self._files[name] = blob.digest, blob.size
            blob.keep()

    def _pin(self, digest: str) -> None:
        self._content.pin([digest])
        self._pinned.append(digest)

    def _is_layer(self, first: bytes) -> bool:
        """Whether a file that begins so may be a layer: a tar, plain or compressed."""
        return bool(compression.detect(first)) or _is_tar(first)

    def _is_unpacked(self, digest: str) -> bool:
        """Whether there is a layer already whose plain tar is called so."""
        if not digest:
            return False
        with self._store.database.reading() as connection:
            return table.layer_by_diff_id(connection, digest) is not None

    # Afterwards

    def find(self, name: str) -> tuple[str, int] | None:
        """digest and size of a file, by way of the archive's own links; None where there is none."""
        name = _normal(name)
        for _ in range(_MOST_LINKS):
            if name in self._files:
                return self._files[name]
            if name not in self._links:
                return None
            name = self._links[name]
        raise Invalid(f"invalid archive: too many links at {name!r}")

    def document(self, name: str) -> bytes | None:
        """A file's bytes, if it is there and no larger than a document may be."""
        found = self.find(name)
        return found and self._content.read(found[0], documents.LARGEST_DOCUMENT)

    def has(self, part: Object) -> bool:
        """Whether the descriptor's blob is in the archive, under that name at least, or in the store."""
        in_archive = self.find(_BLOBS + part["digest"].partition(":")[2]) is not None
        return in_archive or self._content.has(part["digest"], part["size"])

    def blob(self, part: Object) -> Object:
        """The descriptor, if its blob is in the archive, or in the store, with that digest and size."""
        found = self.find(_BLOBS + part["digest"].partition(":")[2])
        if found is not None and found != (part["digest"], part["size"]):
            raise Invalid(f"invalid archive: the blob {part['digest']} has digest {found[0]} and {found[1]} bytes")
        if found is None and not self._content.has(part["digest"], part["size"]):
            raise NotFound(f"content digest {part['digest']}: not found")
        return part

    def layer(self, digest: str, diff_id: str) -> "Layer":
        """The layer that was unpacked on the way, or is unpacked now, from the blob."""
        return self._session.layer(diff_id, lambda: self._content.open(digest))

    def layer_of(self, digest: str) -> "Layer":
        """The same where nobody says what its plain tar is called."""
        with self._content.open(digest) as blob:
            return self._session.unpack(blob)


def _normal(name: str) -> str:
    return posixpath.normpath("/" + name).lstrip("/")


def _is_tar(first: bytes) -> bool:
    """Whether the bytes begin with a tar header, or are the end of an empty tar, which is a layer too."""
    block = first[: tar.BLOCK]
    if len(block) < tar.BLOCK:
        return False
    if block == _EMPTY:
        return len(first) <= 20 * tar.BLOCK
    text = block[148:156].strip(b" \0")
    # The sum is taken with blanks in the place of the sum itself.
    return text.isdigit() and not text.strip(b"01234567") and sum(block) - sum(block[148:156]) + 256 == int(text, 8)


class _Unpacking:
    """A layer on its way into the session, unpacked by a thread of its own while its bytes are written to it.

    Every one is ended by `finish` or `abort`.
    """

    def __init__(self, session: Session):
        self._session = session
        self._feed = _Feed()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="unpack", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._session.unpack(self._feed)
        except (Invalid, Unavailable):
            pass  # no layer, or a bad one: an image that needs it will say so, and no other image cares
        except BaseException as error:  # raised again in the thread that waits
            self._failure = error
        finally:
            self._feed.drain()

    def write(self, data: bytes) -> None:
        """The next bytes. Raises what the unpacking failed for, if that is the host's trouble."""
        self._feed.pieces.put(data)
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """The layer is whole: wait until it is unpacked."""
        self._end(b"")
        if self._failure is not None:
            raise self._failure

    def abort(self) -> None:
        """The rest will not come."""
        self._end(None)

    def _end(self, mark: bytes | None) -> None:
        self._feed.pieces.put(mark)
        self._thread.join()


class _Feed(io.RawIOBase):
    """The reading end: pieces out of a short queue, an empty one at the end, None where there will be no end."""

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
        view = memoryview(buffer)
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def read(self, count: int = -1) -> bytes:
        """What there is next, at most `count` bytes; empty at the end."""
        if self._place == len(self._piece) and not self._ended:
            piece = self.pieces.get()
            self._ended = not piece
            if piece is None:
                raise Invalid("unexpected EOF")
            self._piece, self._place = piece, 0
        start = self._place
        self._place = len(self._piece) if count < 0 else min(start + count, len(self._piece))
        return self._piece[start : self._place]

    def drain(self) -> None:
        """Take what still comes, so that who writes is not kept waiting."""
        self._piece, self._place = b"", 0
        while not self._ended:
            self._ended = not self.pieces.get()


class _Telling:
    """The progress of one layer, a line now and then: a line for each piece would cost more than the unpacking."""

    def __init__(self, progress: Progress, digest: str, name: str, total: int):
        self._progress = progress
        self._id = (digest.partition(":")[2] or name)[:_SHORT]
        self._total = total
        self._next = 0.0

    def at(self, current: int) -> None:
        """So many bytes have come."""
        now = time.monotonic()
        if now >= self._next or current == self._total:
            self._next = now + _TELL_SECONDS
            detail = {"current": current, "total": self._total}
            self._progress({"status": "Loading layer", "progressDetail": detail, "id": self._id})

"""The content store: blob files named by the digest of their contents, unfinished blobs, and pins against removal.

Runs in the daemon, on any thread. A file gets the name of its digest only when every byte of it was verified. Code that
uses a blob before an image in the database has it must pin the blob, so that it is not removed. Blobs are never parsed
here.
"""

import collections
import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator
from io import FileIO

from engine.annotating import Protocol
from engine.daemon import locks
from engine.daemon.tar import trees
from engine.daemon.tar.space import NoSpace, check_space
from engine.daemon.tar.trees import left_for_later, remove_path
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import direct, reasons, writeback
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # where the daemon has C make digests
    from engine.daemon.tar import nativesha256
else:
    nativesha256 = late("engine.daemon.tar.nativesha256")

_SPACE_STEP = 16 * 1024 * 1024
# Seconds for which an unfinished download can be resumed; containerd keeps them for a day too.
_PARTIAL_AGE = 24 * 3600
_PARTIAL = ".partial"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def digest_of(data: bytes) -> str:
    """The sha256 digest of the bytes, in the form `sha256:...`."""
    hasher = sha256()
    hasher.update(data)
    return f"sha256:{hasher.hexdigest()}"


class Hash(Protocol):
    """The interface of hashlib's hash objects."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Hash more bytes."""

    def hexdigest(self) -> str:
        """The digest of all hashed bytes, in hex digits."""


def sha256() -> Hash:
    """A new sha256 hash object."""
    if trees.in_c() and nativesha256.fits():
        return nativesha256.Sha256()
    import hashlib  # imported late: it loads OpenSSL, which takes some megabytes

    return hashlib.sha256()


def append(fd: int, data: bytes | memoryview) -> None:
    """Write all of the data to the file of an unfinished blob. Raises NoSpace when it cannot be written."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise _full(error) from error


def _full(error: OSError) -> NoSpace:
    return NoSpace(f"failed to write a blob: {reasons.of(error.errno or errno.EIO)}")


class Incoming:
    """A blob that is being written: `write` bytes, then `keep`; a context that deletes the blob unless it was kept."""

    def __init__(self, content: "Content", path: str):
        self._content = content
        self._path = path
        self._fd = os.open(path, _NEW, 0o600)
        self._hash = sha256()
        self._unchecked = 0
        self._direct = False  # writes go past the page cache
        self.size = 0

    def __enter__(self) -> "Incoming":
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            with contextlib.suppress(FileNotFoundError):  # `anew` could not make it again
                os.unlink(self._path)

    def write(self, data: bytes | memoryview) -> int:
        """Append the data; returns its length. Raises NoSpace when the disk is nearly full."""
        self._hash.update(data)
        if self._direct:
            direct.end(self._fd)
            self._direct = False
        append(self._fd, data)
        self._grown(len(data))
        return len(data)

    def write_pages(self, pages: memoryview) -> None:
        """The same as `write`, of whole pages that begin at one in memory: they go past the page cache, if they can."""
        if not self._direct and self.size % direct.PAGESIZE == 0:
            self._direct = direct.begin(self._fd)
        if not self._direct:
            self.write(pages)
            return
        try:
            written = direct.write(self._fd, pages)
        except OSError as error:
            raise _full(error) from error
        self._hash.update(pages[:written])
        self._grown(written)
        if written < len(pages):
            self.write(pages[written:])

    def _grown(self, count: int) -> None:
        self.size += count
        self._unchecked += count
        if self._unchecked >= _SPACE_STEP:
            check_space(self._fd)
            writeback.begin(self._fd, self.size - self._unchecked, self._unchecked)
            self._unchecked = 0

    def anew(self) -> tuple[int, Hash]:
        """Begin again, with an empty file; returns what was written, which the caller closes, and its hash."""
        older, hashed = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC), self._hash
        try:
            os.unlink(self._path)
            new = os.open(self._path, _NEW, 0o600)
        except BaseException:
            os.close(older)
            raise
        os.close(self._fd)
        self._fd, self._hash, self._direct = new, sha256(), False
        self.size = self._unchecked = 0
        return older, hashed

    @property
    def digest(self) -> str:
        """The digest `sha256:...` of what was written so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def keep(self) -> str:
        """Give the blob the name of its digest in the store; returns the digest."""
        digest = self.digest
        os.close(self._fd)
        self._fd = -1
        os.rename(self._path, self._content.path(digest))
        return digest


class Content:
    """The content store of a data root: blobs below data_root/blobs, unfinished ones in data_root/tmp."""

    def __init__(self, data_root: str):
        self._blobs = os.path.join(data_root, "blobs")
        self._tmp = os.path.join(data_root, "tmp")
        self._lock = locks.Lock("blobs")
        self._pins: collections.Counter[str] = collections.Counter()
        self._names = 0
        for directory in (self._tmp, *(os.path.join(self._blobs, name) for name in ("sha256", "sha384", "sha512"))):
            os.makedirs(directory, mode=0o700, exist_ok=True)

    def path(self, digest: str) -> str:
        """The path of the blob with this digest, which must have been checked."""
        algorithm, _, value = digest.partition(":")
        return os.path.join(self._blobs, algorithm, value)

    def partial_path(self, digest: str) -> str:
        """The path of an unfinished download of the blob."""
        return os.path.join(self._tmp, digest.replace(":", "-") + _PARTIAL)

    def temporary_path(self) -> str:
        """A new path in data_root/tmp; the caller that makes the file removes it."""
        with self._lock:
            self._names += 1
            return os.path.join(self._tmp, f"{os.getpid()}-{time.time_ns()}-{self._names}")

    def incoming(self) -> Incoming:
        """A new blob to be written, whose digest is not known yet."""
        return Incoming(self, self.temporary_path())

    def put(self, data: bytes) -> str:
        """Keep the bytes as a blob; returns their digest."""
        with self.incoming() as blob:
            blob.write(data)
            return blob.keep()

    def has(self, digest: str, size: int | None = None) -> bool:
        """True when the store has the blob, and with this size where one is given."""
        try:
            found = os.stat(self.path(digest))
        except FileNotFoundError:
            return False
        return size is None or found.st_size == size

    def open(self, digest: str) -> FileIO:
        """The blob as an unbuffered file. Raises NotFound."""
        try:
            return open(self.path(digest), "rb", buffering=0)
        except FileNotFoundError as error:
            raise NotFound(f"content digest {digest}: not found") from error

    def read(self, digest: str, limit: int) -> bytes:
        """All bytes of the blob. Raises NotFound; Invalid when it has more than `limit` bytes."""
        with self.open(digest) as blob:
            if os.fstat(blob.fileno()).st_size > limit:
                raise Invalid(f"{digest} is larger than the {limit} bytes allowed")
            return blob.read()

    @contextlib.contextmanager
    def pinned(self, digests: Iterable[str]) -> Iterator[None]:
        """A context during which `remove` does not delete these blobs."""
        names = list(digests)
        self.pin(names)
        try:
            yield
        finally:
            self.unpin(names)

    def pin(self, digests: Iterable[str]) -> None:
        """Pin these blobs until `unpin`, for a caller that cannot use a `pinned` context for each."""
        with self._lock:
            self._pins.update(digests)

    def unpin(self, digests: Iterable[str]) -> None:
        """Take back one `pin` of each of these blobs."""
        with self._lock:
            self._pins.subtract(digests)
            self._pins += collections.Counter()

    def remove(self, digest: str) -> int:
        """Delete a blob that belongs to no image, and its unfinished download; returns the freed bytes.

        The result is 0 for a blob that is pinned or does not exist.
        """
        freed = 0
        with self._lock:
            if digest in self._pins:
                return 0
            for path in (self.path(digest), self.partial_path(digest)):
                with contextlib.suppress(FileNotFoundError):
                    size = os.stat(path).st_size
                    os.unlink(path)
                    freed += size
        return freed

    def digests(self) -> list[str]:
        """The digests of all blobs in the store, and of those whose download is unfinished."""
        whole = [
            f"{algorithm}:{value}"
            for algorithm in os.listdir(self._blobs)
            for value in os.listdir(os.path.join(self._blobs, algorithm))
        ]
        names = [name.removesuffix(_PARTIAL) for name in os.listdir(self._tmp) if name.endswith(_PARTIAL)]
        return whole + [name.replace("-", ":", 1) for name in names]

    def sweep(self, held: set[str]) -> None:
        """At the daemon's start: delete blobs that belong to no image, and temporary files but resumable downloads.

        held: the digests of the blobs that belong to images
        """
        for algorithm in os.listdir(self._blobs):
            for value in os.listdir(os.path.join(self._blobs, algorithm)):
                if f"{algorithm}:{value}" not in held:
                    with left_for_later("a blob of no image"):
                        self.remove(f"{algorithm}:{value}")
        oldest = time.time() - _PARTIAL_AGE
        for name in os.listdir(self._tmp):
            path = os.path.join(self._tmp, name)
            with left_for_later("a temporary file"):
                if os.path.isdir(path) and not os.path.islink(path):
                    # The context of a build, which ended with the daemon that built it.
                    remove_path(path)
                elif os.path.isfile(path) and not (name.endswith(_PARTIAL) and os.stat(path).st_mtime > oldest):
                    os.unlink(path)

    def flush(self) -> None:
        """Sync all that was written below the data root to the disk, by one syncfs(2) for thousands of files.

        Raises SystemFailure.
        """
        fd = os.open(self._blobs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            writeback.file_system(fd)
        except OSError as error:
            raise SystemFailure(f"failed to write the image to the disk: {reasons.of(error)}") from error
        finally:
            os.close(fd)

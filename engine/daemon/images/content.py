"""The blobs of a data root: files named by the digest of what is in them, and the unfinished ones beside them.

Runs in the daemon, on any thread. A file stands under its digest only when every byte of it was checked; whoever uses
a blob before an image holds it in the database pins it, so that no removal takes it away. Never parses what it keeps.
"""

import collections
import contextlib
import ctypes
import errno
import os
import time
from collections.abc import Iterable, Iterator
from io import FileIO
from typing import Protocol

from engine.daemon import locks
from engine.daemon.tar.space import NoSpace, check_space
from engine.daemon.tar.trees import remove_path
from engine.errors import Invalid, NotFound, SystemFailure

_SPACE_STEP = 16 * 1024 * 1024
# An unfinished download is worth resuming for a day, as containerd keeps them.
_PARTIAL_AGE = 24 * 3600
_PARTIAL = ".partial"

_syncfs = ctypes.CDLL(None, use_errno=True).syncfs


def digest_of(data: bytes) -> str:
    """`sha256:...` of the bytes."""
    hasher = sha256()
    hasher.update(data)
    return f"sha256:{hasher.hexdigest()}"


class Hash(Protocol):
    """A hash object, as hashlib has it."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """The digest of all that was taken."""


def sha256() -> Hash:
    """A new hash object."""
    import hashlib  # loads OpenSSL, which an idle daemon does without

    return hashlib.sha256()


def append(fd: int, data: bytes) -> None:
    """Write all of it to a blob in the making; raises NoSpace when the disk is full."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise NoSpace(f"failed to write a blob: {os.strerror(error.errno or errno.EIO).lower()}") from error


class Incoming:
    """A blob being written: `write` bytes, then `keep`; as a context it is thrown away unless kept."""

    def __init__(self, content: "Content", path: str):
        self._content = content
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._hash = sha256()
        self._unchecked = 0
        self.size = 0

    def __enter__(self) -> "Incoming":
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            os.unlink(self._path)

    def write(self, data: bytes) -> int:
        """Append; raises NoSpace when the disk is full."""
        self._hash.update(data)
        append(self._fd, data)
        self.size += len(data)
        self._unchecked += len(data)
        if self._unchecked >= _SPACE_STEP:
            self._unchecked = 0
            check_space(self._fd)
        return len(data)

    @property
    def digest(self) -> str:
        """`sha256:...` of what was written so far."""
        return f"sha256:{self._hash.hexdigest()}"

    def keep(self) -> str:
        """Put the blob under its digest and return that."""
        digest = self.digest
        os.close(self._fd)
        self._fd = -1
        os.rename(self._path, self._content.path(digest))
        return digest


class Content:
    """The blobs below data_root/blobs, their temporary files in data_root/tmp."""

    def __init__(self, data_root: str):
        self._blobs = os.path.join(data_root, "blobs")
        self._tmp = os.path.join(data_root, "tmp")
        self._lock = locks.Lock("blobs")
        self._pins: collections.Counter[str] = collections.Counter()
        self._names = 0
        for directory in (self._tmp, *(os.path.join(self._blobs, name) for name in ("sha256", "sha384", "sha512"))):
            os.makedirs(directory, mode=0o700, exist_ok=True)

    def path(self, digest: str) -> str:
        """Where the blob of this (checked) digest stands."""
        algorithm, _, value = digest.partition(":")
        return os.path.join(self._blobs, algorithm, value)

    def partial_path(self, digest: str) -> str:
        """Where an unfinished download of the blob stands."""
        return os.path.join(self._tmp, digest.replace(":", "-") + _PARTIAL)

    def temporary_path(self) -> str:
        """A new name in data_root/tmp; whoever makes the file removes it."""
        with self._lock:
            self._names += 1
            return os.path.join(self._tmp, f"{os.getpid()}-{time.time_ns()}-{self._names}")

    def incoming(self) -> Incoming:
        """A new blob whose digest is not known yet."""
        return Incoming(self, self.temporary_path())

    def put(self, data: bytes) -> str:
        """Keep the bytes; returns their digest."""
        with self.incoming() as blob:
            blob.write(data)
            return blob.keep()

    def has(self, digest: str, size: int | None = None) -> bool:
        """True when the blob is there, and of that size when one is given."""
        try:
            found = os.stat(self.path(digest))
        except FileNotFoundError:
            return False
        return size is None or found.st_size == size

    def open(self, digest: str) -> FileIO:
        """The blob, unbuffered. Raises NotFound."""
        try:
            return open(self.path(digest), "rb", buffering=0)
        except FileNotFoundError as error:
            raise NotFound(f"content digest {digest}: not found") from error

    def read(self, digest: str, limit: int) -> bytes:
        """The blob whole; raises Invalid when it has more than `limit` bytes."""
        with self.open(digest) as blob:
            if os.fstat(blob.fileno()).st_size > limit:
                raise Invalid(f"{digest} is larger than the {limit} bytes allowed")
            return blob.read()

    @contextlib.contextmanager
    def pinned(self, digests: Iterable[str]) -> Iterator[None]:
        """While this lasts no removal takes these blobs away."""
        names = list(digests)
        self.pin(names)
        try:
            yield
        finally:
            self.unpin(names)

    def pin(self, digests: Iterable[str]) -> None:
        """Begin what `pinned` does, for who has too many to nest."""
        with self._lock:
            self._pins.update(digests)

    def unpin(self, digests: Iterable[str]) -> None:
        """Take back one `pin` of each of these blobs."""
        with self._lock:
            self._pins.subtract(digests)
            self._pins += collections.Counter()

    def remove(self, digest: str) -> int:
        """Remove a blob that no image holds, or what has come of one; returns the bytes set free.

        0 for one that is pinned or not there.
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
        """Of all the blobs that are here, and of those whose download is unfinished."""
        whole = [
            f"{algorithm}:{value}"
            for algorithm in os.listdir(self._blobs)
            for value in os.listdir(os.path.join(self._blobs, algorithm))
        ]
        names = [name.removesuffix(_PARTIAL) for name in os.listdir(self._tmp) if name.endswith(_PARTIAL)]
        return whole + [name.replace("-", ":", 1) for name in names]

    def sweep(self, held: set[str]) -> None:
        """At the daemon's start: remove what no image holds, and temporary files; what can still be resumed stays."""
        for algorithm in os.listdir(self._blobs):
            for value in os.listdir(os.path.join(self._blobs, algorithm)):
                if f"{algorithm}:{value}" not in held:
                    self.remove(f"{algorithm}:{value}")
        oldest = time.time() - _PARTIAL_AGE
        for name in os.listdir(self._tmp):
            path = os.path.join(self._tmp, name)
            if os.path.isdir(path) and not os.path.islink(path):
                # A build's context, which went with the daemon that built.
                remove_path(path)
            elif os.path.isfile(path) and not (name.endswith(_PARTIAL) and os.stat(path).st_mtime > oldest):
                os.unlink(path)

    def flush(self) -> None:
        """Put all that was written below the data root on the disk: one syncfs(2) for thousands of files."""
        fd = os.open(self._blobs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise SystemFailure(f"failed to write the image to the disk: {os.strerror(code).lower()}")
        finally:
            os.close(fd)

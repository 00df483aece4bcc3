"""Downloading one blob into the content store: from where the last attempt stopped, and kept only when it is right.

Runs in the daemon, on the threads of a pull: one downloads, another may follow what arrives. The unfinished file
outlives the pull and the daemon, unless the disk is full; two pulls that want the same blob take turns at it.
"""

import contextlib
import hashlib
import http.client
import io
import logging
import os
import threading
from collections.abc import Callable, Iterator

from engine.daemon.images.content import Content, append
from engine.daemon.images.registry.answer import Answer
from engine.daemon.images.registry.reads import Registry
from engine.daemon.jsontext import Object
from engine.daemon.streams import Buffer
from engine.daemon.tar.space import NoSpace, check_space
from engine.errors import Invalid, NotFound, SystemFailure, Unauthorized

log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_SPACE_STEP = 16 * 1024 * 1024
_ATTEMPTS = 5
# An attempt that brought this much was worth it, and is not counted as one that failed.
_WORTH = 1024 * 1024
_FIRST_PAUSE = 0.25
# How often somebody who waits looks whether it is all over.
_LOOK = 0.2

_busy_lock = threading.Lock()
# An unfinished file's name → its lock, and how many hold it or wait for it.
_busy: dict[str, tuple[threading.Lock, int]] = {}


class Cancelled(SystemFailure):
    """The pull was given up by its client, or by the failure of another part of it."""


@contextlib.contextmanager
def _turn(path: str, cancelled: threading.Event) -> Iterator[None]:
    """One thread at a time for one unfinished file."""
    with _busy_lock:
        lock, users = _busy.get(path) or (threading.Lock(), 0)
        _busy[path] = (lock, users + 1)
    held = False
    try:
        while not held:
            if cancelled.is_set():
                raise Cancelled("context canceled")
            held = lock.acquire(timeout=_LOOK)
        yield
    finally:
        with _busy_lock:
            if held:
                lock.release()
            users = _busy[path][1] - 1
            if users:
                _busy[path] = (lock, users)
            else:
                del _busy[path]


class Arriving:
    """A blob on its way: how much of it is here, and what became of it. One thread downloads, others `follow`.

    part: its descriptor; cancelled: when it is set nobody waits any longer
    """

    def __init__(self, part: Object, cancelled: threading.Event):
        self.part = part
        self.cancelled = cancelled
        self._changed = threading.Condition()
        self._here = 0
        self._fd = -1
        self._ended = False
        self._failure: BaseException | None = None
        # It was begun anew: what was followed until then may have been something else.
        self.renewed = False

    def came(self, fd: int, here: int) -> None:
        """The file `fd`, open as long as the blob is not `ended`, holds its first `here` bytes."""
        with self._changed:
            self.renewed = self.renewed or here < self._here
            self._fd, self._here = fd, here
            self._changed.notify_all()

    def ended(self, failure: BaseException | None = None) -> None:
        """It stands under its digest, checked, or never will."""
        with self._changed:
            self._ended, self._failure, self._fd = True, failure, -1
            self._changed.notify_all()

    @property
    def is_whole(self) -> bool:
        """True when it stands under its digest."""
        return self._ended and self._failure is None

    def wait(self) -> None:
        """Return when it is whole. Raises Cancelled when it never will be."""
        with self._changed:
            self._until(lambda: False)

    def opened(self) -> int | None:
        """A descriptor of one's own of the file it is written to; None when it stands under its digest already."""
        with self._changed:
            self._until(lambda: self._fd >= 0)
            return os.dup(self._fd) if self._fd >= 0 else None

    def beyond(self, place: int, abandoned: Callable[[], bool]) -> int:
        """How many bytes there are behind `place`; 0 only at the end of the whole, checked blob, or when abandoned.

        Raises Cancelled.
        """
        with self._changed:
            self._until(lambda: self._here > place or abandoned())
            return max(0, (self.part["size"] if self._ended else self._here) - place)

    def _until(self, enough: Callable[[], bool]) -> None:
        while not (self._ended or enough()):
            self._changed.wait(_LOOK)
            if self.cancelled.is_set():
                raise Cancelled("context canceled")
        if self._failure is not None:
            raise Cancelled("the download has failed") from self._failure


class Following(io.RawIOBase):
    """The bytes of a blob that is still arriving; its end is told only when the whole of it was checked.

    told: called with how far it was read
    """

    def __init__(self, arriving: Arriving, content: Content, told: Callable[[int], None]):
        self._arriving = arriving
        self._told = told
        self._place = 0
        self._abandoned = False
        self._file: io.FileIO | None = None  # where there is none, there is nothing to close
        fd = arriving.opened()
        self._file = content.open(arriving.part["digest"]) if fd is None else io.FileIO(fd, "rb")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with what has arrived, once there is something. Raises Cancelled when no more will come."""
        assert self._file is not None  # whoever reads has got it made
        view = memoryview(buffer)
        while here := self._arriving.beyond(self._place, lambda: self._abandoned):
            if self._abandoned:
                break
            # An attempt that had to begin anew makes the file shorter for a while.
            count = os.preadv(self._file.fileno(), [view[: min(here, len(view))]], self._place)
            if count:
                self._place += count
                self._told(self._place)
                return count
            if self._arriving.is_whole:
                raise SystemFailure(f"content digest {self._arriving.part['digest']}: it has become shorter")
        if self._abandoned:
            raise Cancelled("context canceled")
        return 0

    def abandon(self) -> None:
        """Have a thread that reads, or is going to, raise Cancelled soon."""
        self._abandoned = True

    def close(self) -> None:
        """Close the file too."""
        if self._file is not None:
            self._file.close()
        super().close()


def fetch(
    registry: Registry,
    content: Content,
    part: Object,
    cancelled: threading.Event,
    progress: Callable[[int], None],
    arriving: Arriving | None = None,
) -> bool:
    """Have the blob of the descriptor `part` in the (pinned) content; False when it was there already.

    progress: called with the bytes that are here so far; arriving: is told of them too, and of how it ended.
    Raises Cancelled, NotFound, SystemFailure, Invalid.
    """
    arriving = arriving or Arriving(part, cancelled)
    try:
        fresh = not content.has(part["digest"], part["size"]) and _fetch(registry, content, arriving, progress)
    except BaseException as error:
        arriving.ended(error)
        raise
    arriving.ended()
    return fresh


def forget(content: Content, digest: str) -> None:
    """Remove what an interrupted download left, unless somebody is at it."""
    path = content.partial_path(digest)
    with _busy_lock:
        if path not in _busy:
            with contextlib.suppress(FileNotFoundError):  # it was never begun, or is whole
                os.unlink(path)


def _fetch(registry: Registry, content: Content, arriving: Arriving, progress: Callable[[int], None]) -> bool:
    digest, size = arriving.part["digest"], arriving.part["size"]
    path = content.partial_path(digest)
    with _turn(path, arriving.cancelled):
        if content.has(digest, size):
            return False
        with _Partial(path, arriving, progress) as partial:
            _attempts(registry, partial)
            os.rename(path, content.path(digest))
            # Before the file is closed: who follows takes it from here.
            arriving.ended()
    return True


def _attempts(registry: Registry, partial: "_Partial") -> None:
    failed = 0
    while True:
        before = partial.done
        try:
            partial.attempt(registry)
            return
        except NoSpace:
            # What is unfinished would keep the disk full.
            partial.forget()
            raise
        except (Cancelled, NotFound, Unauthorized, Invalid):
            raise
        except SystemFailure as failure:
            # What came so far stays; the next attempt asks for the rest.
            failed = 1 if partial.done - before >= _WORTH else failed + 1
            if failed == _ATTEMPTS:
                raise
            log.info("download of %s is interrupted, trying again: %s", partial.digest, failure)
            if partial.arriving.cancelled.wait(_FIRST_PAUSE * 2 ** (failed - 1)):
                raise Cancelled("context canceled") from failure


class _Partial:
    """The unfinished file: what is in it, and the digest of that so far; as a context it is open that long."""

    def __init__(self, path: str, arriving: Arriving, progress: Callable[[int], None]):
        self.arriving = arriving
        self.digest, self._size = arriving.part["digest"], arriving.part["size"]
        self._path = path
        self._progress = progress
        self._algorithm = self.digest.partition(":")[0]
        self._hasher = hashlib.new(self._algorithm)
        self._unchecked = 0
        self.done = 0
        # There were bytes that came before: perhaps from somebody else, who named a digest that was not his.
        self._resumed = False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def __enter__(self) -> "_Partial":
        if os.fstat(self._fd).st_size > self._size:
            self._truncate()
        while data := os.read(self._fd, _CHUNK):
            self._hasher.update(data)
            self.done += len(data)
        self._resumed = self.done > 0
        self.arriving.came(self._fd, self.done)
        return self

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> None:
        # Not a moment later: who follows takes a copy of the descriptor.
        if failure is not None:
            self.arriving.ended(failure)
        os.close(self._fd)

    def forget(self) -> None:
        """Nothing of it is to be resumed."""
        self._truncate()
        os.unlink(self._path)

    def attempt(self, registry: Registry) -> None:
        """Read the rest of the blob; returns when it is whole and right."""
        if self.done < self._size:
            with registry.blob(self.digest, self.done) as (answer, start):
                if start != self.done:
                    self._truncate()
                self._copy(answer)
        found = f"{self._algorithm}:{self._hasher.hexdigest()}"
        if found != self.digest:
            # Nothing of it can be trusted, so nothing of it is resumed.
            self._truncate()
            if self._resumed:
                self._resumed = False
                raise SystemFailure(f"what was there of it is no part of {self.digest}")
            raise Invalid(f"unexpected commit digest {found}, expected {self.digest}: failed precondition")

    def _truncate(self) -> None:
        self.done, self._hasher = 0, hashlib.new(self._algorithm)
        self.arriving.came(self._fd, 0)
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)

    def _copy(self, answer: Answer) -> None:
        """Append the answer's body, to the blob's size and no further. Raises SystemFailure where it ends early."""
        while self.done < self._size:
            if self.arriving.cancelled.is_set():
                raise Cancelled("context canceled")
            try:
                # What is here, not all that was asked for: who follows gets it at once.
                data = answer.read1(min(_CHUNK, self._size - self.done))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise SystemFailure(f"failed to copy: {str(error) or 'unexpected EOF'}") from error
            if not data:
                raise SystemFailure("failed to copy: unexpected EOF")
            self._append(data)
        # Read to its end, the connection serves for the next blob.
        # Where it fails, the blob is here all the same, and the connection is dropped.
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            answer.read(1)

    def _append(self, data: bytes) -> None:
        append(self._fd, data)
        self._hasher.update(data)
        self.done += len(data)
        self._unchecked += len(data)
        if self._unchecked >= _SPACE_STEP:
            self._unchecked = 0
            check_space(self._fd)
        self.arriving.came(self._fd, self.done)
        self._progress(self.done)

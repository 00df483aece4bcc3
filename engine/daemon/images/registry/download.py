"""Downloading one blob into the content store, with resuming, verification, and readers that follow while it arrives.

Runs in the daemon, on the threads of a pull: one thread downloads, another may read what has arrived. The unfinished
file outlives the pull and the daemon, unless the disk is full; a later download resumes it. Two pulls that want the
same blob take turns.
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
from engine.daemon.images.registry.reads import Registry, uncommitted
from engine.daemon.jsontext import Object
from engine.daemon.streams import Buffer
from engine.daemon.tar.space import NoSpace, check_space
from engine.errors import Invalid, NotFound, SystemFailure, Unauthorized
from engine.kernel import reasons, writeback

log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_SPACE_STEP = 16 * 1024 * 1024
# After an attempt that brought this many bytes, the count of failed attempts begins anew.
_WORTH = 1024 * 1024
_FIRST_PAUSE = 0.25
# Seconds after which a waiting thread looks whether the pull was cancelled.
_LOOK = 0.2

_busy_lock = threading.Lock()
# Path of an unfinished file → its lock, and the number of threads that hold the lock or wait for it.
_busy: dict[str, tuple[threading.Lock, int]] = {}


class Cancelled(SystemFailure):
    """The pull or push has ended early, because its client has gone or another part of it has failed."""


@contextlib.contextmanager
def _turn(path: str, cancelled: threading.Event) -> Iterator[None]:
    """A context that one thread at a time enters for one unfinished file. Raises Cancelled while it waits."""
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
    """The state of a blob's download, which one thread updates while others wait for bytes of it.

    part: the blob's descriptor; cancelled: when it is set, waiting threads raise Cancelled
    """

    def __init__(self, part: Object, cancelled: threading.Event):
        self.part = part
        self.cancelled = cancelled
        self._changed = threading.Condition()
        self._here = 0
        self._fd = -1
        self._ended = False
        self._failure: BaseException | None = None
        # True once the download was begun anew: bytes that were read until then may have been other ones.
        self.renewed = False

    def came(self, fd: int, here: int) -> None:
        """Record that the file `fd` holds the blob's first `here` bytes; it stays open until `ended` is called."""
        with self._changed:
            self.renewed = self.renewed or here < self._here
            self._fd, self._here = fd, here
            self._changed.notify_all()

    def ended(self, failure: BaseException | None = None) -> None:
        """Record the end: the blob is verified and in the content store, or the download has failed."""
        with self._changed:
            self._ended, self._failure, self._fd = True, failure, -1
            self._changed.notify_all()

    @property
    def is_whole(self) -> bool:
        """True when the blob is verified and in the content store."""
        return self._ended and self._failure is None

    def wait(self) -> None:
        """Return when the blob is whole. Raises Cancelled when the download has failed or was cancelled."""
        with self._changed:
            self._until(lambda: False)

    def opened(self) -> int | None:
        """A new descriptor of the file that is being written; None when the content store has the blob already.

        Waits until one of both is so. Raises Cancelled.
        """
        with self._changed:
            self._until(lambda: self._fd >= 0)
            return os.dup(self._fd) if self._fd >= 0 else None

    def beyond(self, place: int, abandoned: Callable[[], bool]) -> int:
        """How many bytes there are after the offset `place`; waits until there are some.

        0 only at the end of the whole, verified blob, or when `abandoned` returns True. Raises Cancelled.
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
    """A raw stream of a blob that is still arriving; it ends only when the whole blob was verified.

    told: called with the number of bytes read so far
    """

    def __init__(self, arriving: Arriving, content: Content, told: Callable[[int], None]):
        self._arriving = arriving
        self._told = told
        self._place = 0
        self._abandoned = False
        self._file: io.FileIO | None = None  # until it is open, `close` has nothing to close
        fd = arriving.opened()
        self._file = content.open(arriving.part["digest"]) if fd is None else io.FileIO(fd, "rb")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill the buffer with what has arrived, once there is something. Raises Cancelled when no more will come."""
        assert self._file is not None  # __init__ has opened it before anything can read
        view = memoryview(buffer)
        while here := self._arriving.beyond(self._place, lambda: self._abandoned):
            if self._abandoned:
                break
            # The file may be shorter for a while, when the download had to begin anew.
            count = os.preadv(self._file.fileno(), [view[: min(here, len(view))]], self._place)
            if count:
                self._place += count
                self._told(self._place)
                return count
            if self._arriving.is_whole:
                raise SystemFailure(
                    f"content digest {self._arriving.part['digest']}: the blob's file has become shorter"
                )
        if self._abandoned:
            raise Cancelled("context canceled")
        return 0

    def abandon(self) -> None:
        """Make a thread that reads now or later raise Cancelled soon."""
        self._abandoned = True

    def close(self) -> None:
        """Close the stream and its file."""
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
    attempts: int = 5,
) -> bool:
    """Download the blob of the descriptor `part`, which the caller has pinned; False when the store had it already.

    progress: called with the number of bytes so far; arriving: is updated with those too, and with the end
    attempts: how often it is tried at most
    Raises Cancelled, NotFound, SystemFailure, Invalid.
    """
    arriving = arriving or Arriving(part, cancelled)
    try:
        fresh = not content.has(part["digest"], part["size"]) and _fetch(
            registry, content, arriving, progress, attempts
        )
    except BaseException as error:
        arriving.ended(error)
        raise
    arriving.ended()
    return fresh


def forget(content: Content, digest: str) -> None:
    """Delete the unfinished file of a blob's download, unless a download of it is under way."""
    path = content.partial_path(digest)
    with _busy_lock:
        if path not in _busy:
            with contextlib.suppress(FileNotFoundError):  # the download was never begun, or is complete
                os.unlink(path)


def _fetch(
    registry: Registry, content: Content, arriving: Arriving, progress: Callable[[int], None], attempts: int
) -> bool:
    digest, size = arriving.part["digest"], arriving.part["size"]
    path = content.partial_path(digest)
    with _turn(path, arriving.cancelled):
        if content.has(digest, size):
            return False
        with _Partial(path, arriving, progress) as partial:
            _attempts(registry, partial, attempts)
            os.rename(path, content.path(digest))
            # Before the file is closed, since a `Following` copies its descriptor as long as the end is not recorded.
            arriving.ended()
    return True


def _attempts(registry: Registry, partial: "_Partial", most: int) -> None:
    failed = 0
    while True:
        before = partial.done
        try:
            partial.attempt(registry)
            return
        except NoSpace:
            # The unfinished file would keep the disk full.
            partial.forget()
            raise
        except (Cancelled, NotFound, Unauthorized, Invalid):
            raise
        except SystemFailure as failure:
            # The bytes that came so far stay, and the next attempt asks for the rest.
            failed = 1 if partial.done - before >= _WORTH else failed + 1
            if failed >= most:
                raise
            log.info("download of %s is interrupted, trying again: %s", partial.digest, failure)
            if partial.arriving.cancelled.wait(_FIRST_PAUSE * 2 ** (failed - 1)):
                raise Cancelled("context canceled") from failure


class _Partial:
    """The unfinished file of a download, and the hash of its bytes so far; a context, at whose end it is closed."""

    def __init__(self, path: str, arriving: Arriving, progress: Callable[[int], None]):
        self.arriving = arriving
        self.digest, self._size = arriving.part["digest"], arriving.part["size"]
        self._path = path
        self._progress = progress
        self._algorithm = self.digest.partition(":")[0]
        self._hasher = hashlib.new(self._algorithm)
        self._unchecked = 0
        self.done = 0
        # The file had bytes of an earlier download, perhaps from another registry that lied about the digest.
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
        # Before the file is closed, since a `Following` copies its descriptor as long as the end is not recorded.
        if failure is not None:
            self.arriving.ended(failure)
        os.close(self._fd)

    def forget(self) -> None:
        """Delete the file, so that nothing of it is resumed."""
        self._truncate()
        os.unlink(self._path)

    def attempt(self, registry: Registry) -> None:
        """Download the rest of the blob; returns when it is whole and has its digest. Raises SystemFailure, Invalid."""
        if self.done < self._size:
            with registry.blob(self.digest, self.done) as (answer, start):
                if start != self.done:
                    self._truncate()
                self._copy(answer)
        found = f"{self._algorithm}:{self._hasher.hexdigest()}"
        if found != self.digest:
            # No part of these bytes can be trusted, so none is resumed.
            self._truncate()
            if self._resumed:
                self._resumed = False
                raise SystemFailure(f"the resumed part of {self.digest} was wrong; it is downloaded again")
            raise Invalid(uncommitted("layer", found, self.digest))

    def _truncate(self) -> None:
        self.done, self._hasher = 0, hashlib.new(self._algorithm)
        self.arriving.came(self._fd, 0)
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)

    def _copy(self, answer: Answer) -> None:
        """Append the answer's body, up to the blob's size. Raises SystemFailure where the body ends early."""
        while self.done < self._size:
            if self.arriving.cancelled.is_set():
                raise Cancelled("context canceled")
            try:
                # read1 returns what has come, not all that was asked for, so that readers get it at once.
                data = answer.read1(min(_CHUNK, self._size - self.done))
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise SystemFailure(f"failed to copy: {reasons.whole(error) or 'unexpected EOF'}") from error
            if not data:
                raise SystemFailure("failed to copy: unexpected EOF")
            self._append(data)
        # An answer that is read to its end leaves the connection usable for the next blob. If this read fails, the blob
        # is complete all the same, and the connection is dropped.
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            answer.read(1)

    def _append(self, data: bytes) -> None:
        append(self._fd, data)
        self._hasher.update(data)
        self.done += len(data)
        self._unchecked += len(data)
        if self._unchecked >= _SPACE_STEP:
            check_space(self._fd)
            writeback.begin(self._fd, self.done - self._unchecked, self._unchecked)
            self._unchecked = 0
        self.arriving.came(self._fd, self.done)
        self._progress(self.done)

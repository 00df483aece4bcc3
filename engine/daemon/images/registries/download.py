"""Downloading one blob into the content store: from where the last attempt stopped, and kept only when it is right.

Runs in the daemon, on the threads of a pull. The unfinished file outlives the pull and the daemon; two pulls that want
the same blob take turns at it.
"""

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from engine.daemon.images.content import Content
from engine.daemon.tar.space import NoSpace, check_space
from engine.errors import Invalid, NotFound, SystemFailure, Unauthorized

if TYPE_CHECKING:
    from engine.daemon.images.registries.registry import Registry

log = logging.getLogger(__name__)

_CHUNK = 256 * 1024
_SPACE_STEP = 16 * 1024 * 1024
_ATTEMPTS = 5
_FIRST_PAUSE = 0.25

_busy_lock = threading.Lock()
_busy: dict[str, threading.Lock] = {}


class Cancelled(SystemFailure):
    """The pull was given up by its client, or by the failure of another part of it."""


@contextlib.contextmanager
def _turn(path: str) -> Iterator[None]:
    """One thread at a time for one unfinished file."""
    with _busy_lock:
        lock = _busy.setdefault(path, threading.Lock())
    with lock:
        yield
    with _busy_lock:
        if not lock.locked():
            _busy.pop(path, None)


def fetch(
    registry: "Registry",
    content: Content,
    part: dict,
    cancelled: threading.Event,
    progress: Callable[[int], None],
) -> bool:
    """Have the blob of the descriptor `part` in the (pinned) content; False when it was there already.

    progress: called with the bytes that are here so far. Raises Cancelled, NotFound, SystemFailure, Invalid.
    """
    digest, size = part["digest"], part["size"]
    if content.has(digest, size):
        return False
    path = content.partial_path(digest)
    with _turn(path):
        if content.has(digest, size):
            return False
        for attempt in range(_ATTEMPTS):
            try:
                _attempt(registry, path, part, cancelled, progress)
                break
            except (Cancelled, NoSpace, NotFound, Unauthorized, Invalid):
                raise
            except SystemFailure as failure:
                # What came so far stays; the next attempt asks for the rest.
                if attempt == _ATTEMPTS - 1:
                    raise
                log.info("download of %s is interrupted, trying again: %s", digest, failure)
                if cancelled.wait(_FIRST_PAUSE * 2**attempt):
                    raise Cancelled("context canceled") from failure
        os.rename(path, content.path(digest))
    return True


def _attempt(
    registry: "Registry", path: str, part: dict, cancelled: threading.Event, progress: Callable[[int], None]
) -> None:
    """Read the rest of the blob into the file at `path`; returns when it is whole and right."""
    algorithm = part["digest"].partition(":")[0]
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        done, hasher = _hash_of(fd, algorithm, part["size"])
        if done < part["size"]:
            with registry.blob(part["digest"], done) as (answer, start):
                if start != done:
                    done, hasher = 0, hashlib.new(algorithm)
                os.ftruncate(fd, done)
                os.lseek(fd, done, os.SEEK_SET)
                _copy(answer, fd, done, part, hasher, cancelled, progress)
        found = f"{algorithm}:{hasher.hexdigest()}"
        if found != part["digest"]:
            # Nothing of it can be trusted, so nothing of it is resumed.
            os.ftruncate(fd, 0)
            raise Invalid(f"unexpected commit digest {found}, expected {part['digest']}: failed precondition")
    finally:
        os.close(fd)


def _hash_of(fd: int, algorithm: str, size: int) -> tuple[int, object]:
    """How much is there from an attempt before, and its digest so far; nothing when it is too much."""
    hasher = hashlib.new(algorithm)
    if os.fstat(fd).st_size > size:
        os.ftruncate(fd, 0)
    done = 0
    while data := os.read(fd, _CHUNK):
        hasher.update(data)
        done += len(data)
    return done, hasher


def _copy(
    answer: object,
    fd: int,
    done: int,
    part: dict,
    hasher: object,
    cancelled: threading.Event,
    progress: Callable[[int], None],
) -> None:
    """Append the answer's body, to the blob's size and no further. Raises SystemFailure where it ends early."""
    import http.client  # loaded by the transport already

    unchecked = 0
    while done < part["size"]:
        if cancelled.is_set():
            raise Cancelled("context canceled")
        try:
            data = answer.read(min(_CHUNK, part["size"] - done))
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise SystemFailure(f"failed to copy: {str(error) or 'unexpected EOF'}") from error
        if not data:
            raise SystemFailure("failed to copy: unexpected EOF")
        _write(fd, data)
        hasher.update(data)
        done += len(data)
        unchecked += len(data)
        if unchecked >= _SPACE_STEP:
            unchecked = 0
            check_space(fd)
        progress(done)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        raise NoSpace(f"failed to write a blob: {os.strerror(error.errno).lower()}") from error

"""Contexts in the bodies of requests: the build that a request begins reads them, from a URL that only it knows.

The body is read on the thread that builds, while the request's own thread waits. With `upload-request` one request
brings the body and another begins the build; either may come first. The lock is held for a look or a change.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from engine.daemon.builder.context import Source
from engine.errors import Conflict, NotFound

_PATIENCE_SECONDS = 5.0  # as long as one of two requests waits for the other
_MOST_WAITING = 100
_HOST = "http://build-context-"

_changed = threading.Condition()
_sources: dict[str, Source] = {}  # by their URLs; guarded by `_changed`, as is the next
_uploads: dict[str, "_Upload"] = {}  # by the names of their builds


class _Upload:
    """A body that one request has brought for the build of another."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.taken = self.done = False


@contextlib.contextmanager
def offered(source: Source) -> Iterator[str]:
    """The URL under which the body is found for the time of a `with`."""
    url = f"{_HOST}{os.urandom(16).hex()}"
    with _changed:
        _sources[url] = source
    try:
        yield url
    finally:
        with _changed:
            del _sources[url]


def find(url: str) -> Source | None:
    """The body of that URL; None for any other URL."""
    with _changed:
        return _sources.get(url)


def bring(name: str, source: Source) -> None:
    """Give a body to the build of that name, and wait until it was read. Raises NotFound where no build wants it."""
    upload = _Upload(source)
    with _changed:
        if name in _uploads or len(_uploads) >= _MOST_WAITING:
            raise Conflict(f"the context of the build {name} is there already, or too many wait")
        _uploads[name] = upload
        _changed.notify_all()
        try:
            end = time.monotonic() + _PATIENCE_SECONDS
            while not upload.done:
                left = end - time.monotonic()
                if not upload.taken and left <= 0:
                    raise NotFound(f"no build {name} asks for its context")
                _changed.wait(None if upload.taken else left)
        finally:
            del _uploads[name]


@contextlib.contextmanager
def brought(name: str) -> Iterator[Source]:
    """The body that another request brings for the build of that name. Raises NotFound where none comes."""
    end = time.monotonic() + _PATIENCE_SECONDS
    with _changed:
        while name not in _uploads or _uploads[name].taken:
            left = end - time.monotonic()
            if left <= 0:
                raise NotFound(f"the context of the build {name} did not come")
            _changed.wait(left)
        upload = _uploads[name]
        upload.taken = True
    try:
        yield upload.source
    finally:
        with _changed:
            upload.done = True
            _changed.notify_all()

"""Uploading one blob to a registry: mounting it from another repository, or sending it with retries and resuming.

Runs in the daemon, on the threads of a push. Bytes go from the blob's file to the socket by sendfile(2) without TLS,
and through one small buffer with TLS. A registry that stops reading, or reads too slowly, is given up.
"""

import logging
import os
import select
import socket
import time
from collections.abc import Callable, Iterable
from threading import Event

from engine.daemon.images.content import Content
from engine.daemon.images.registry.download import Cancelled
from engine.daemon.images.registry.writes import Refused, Upload, Writer
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotFound, SystemFailure, Unauthorized

log = logging.getLogger(__name__)

_STEP = 1 << 20
_TLS_STEP = 128 * 1024
# Size of the chunks for a registry that asks for chunks, unless its minimum is larger.
_CHUNK = 16 << 20
_ATTEMPTS = 5
_FIRST_PAUSE = 0.25
# Seconds without progress after which there is no new attempt, so that the waiting client gets the error.
_PATIENCE = 45.0
# The registry must read at least this many bytes in this many seconds.
_WINDOW = 60.0
_LEAST = 64 * 1024
# Statuses after which another attempt may succeed. 416, and 404 for an upload, mean that it has to begin again.
_PASSING = frozenset({408, 416, 425, 429})


class Stalled(SystemFailure):
    """The registry has read too little for too long; the upload is not tried again."""


class _Slice:
    """A part of a file as a request's body, a `transport.Sender`. told: called with the number of bytes sent so far"""

    def __init__(self, fd: int, start: int, size: int, told: Callable[[int], None]):
        self._fd = fd
        self._start = start
        self.size = size
        self._told = told

    def send(self, connection: socket.socket) -> bool:
        """Write the bytes; False if the registry has answered before it had them all. Raises Stalled, OSError."""
        is_plain = type(connection) is socket.socket
        gone, noted, until = 0, 0, time.monotonic() + _WINDOW
        waiting = select.poll()
        # If a connection without TLS becomes readable now, that is an answer, and the registry does not want the rest.
        waiting.register(connection, select.POLLOUT | (select.POLLIN if is_plain else 0))
        while gone < self.size:
            left = until - time.monotonic()
            if left <= 0 and gone - noted < min(_LEAST, self.size - noted):
                raise Stalled(f"the registry stopped reading: {gone - noted} bytes in {_WINDOW:.0f} seconds")
            if left <= 0:
                noted, until = gone, time.monotonic() + _WINDOW
                continue
            ready = waiting.poll(left * 1000)
            if ready and ready[0][1] & select.POLLIN:
                return False
            if ready:
                gone += self._some(connection, gone, is_plain)
                self._told(gone)
        return True

    def _some(self, connection: socket.socket, gone: int, is_plain: bool) -> int:
        offset, left = self._start + gone, self.size - gone
        if is_plain:
            try:
                sent = os.sendfile(connection.fileno(), self._fd, offset, min(_STEP, left))
            except BlockingIOError:  # poll(2) may report a socket as ready wrongly
                return 0
            if not sent:
                raise SystemFailure("the blob ended early: its file is damaged")
            return sent
        data = os.pread(self._fd, min(_TLS_STEP, left), offset)
        if not data:
            raise SystemFailure("the blob ended early: its file is damaged")
        connection.settimeout(_WINDOW)
        try:
            connection.sendall(data)
        except TimeoutError:
            raise Stalled(f"the registry stopped reading: nothing in {_WINDOW:.0f} seconds") from None
        return len(data)


class Blob:
    """The upload of one blob to the repository of `writer`.

    part: the blob's descriptor; cancelled: ends the upload; told: called with the number of bytes sent so far
    """

    def __init__(self, writer: Writer, part: Object, cancelled: Event, told: Callable[[int], None]):
        self._writer = writer
        self._digest = part["digest"]
        self._size = part["size"]
        self._cancelled = cancelled
        self._told_all = told
        self._moved = time.monotonic()
        self._furthest = 0

    def mounted(self, sources: Iterable[str], refused: Callable[[str], None]) -> tuple[str, Upload | None]:
        """Try to mount the blob; returns the repository it was mounted from (or empty), and an upload opened instead.

        sources: repositories of the same registry that may have the blob; refused: called with each that did not work
        """
        for source in sources:
            try:
                upload = self._writer.mount(self._digest, source)
            except (Refused, Unauthorized) as error:
                log.info("cannot mount the blob %s from repository %s: %s", self._digest, source, error)
                refused(source)
                continue
            if upload is None:
                return source, None
            refused(source)
            # The registry has opened an upload instead of mounting. Another try would leave that upload unused.
            return "", upload
        return "", None

    def send(self, content: Content, upload: Upload | None) -> None:
        """Send the blob, in several attempts if need be. Raises Cancelled, NotFound, Unauthorized, SystemFailure.

        upload: one that `mounted` has opened, or None
        """
        with content.open(self._digest) as file:
            fd = file.fileno()
            if os.fstat(fd).st_size != self._size:
                raise NotFound(f"content digest {self._digest}: its file has another size than {self._size}")
            for attempt in range(_ATTEMPTS):
                try:
                    upload = upload or self._writer.start()
                    self._attempt(fd, upload)
                    return
                except (Cancelled, Stalled, NotFound, Unauthorized, Invalid):
                    raise
                except SystemFailure as failure:
                    tired = time.monotonic() - self._moved > _PATIENCE
                    if attempt == _ATTEMPTS - 1 or tired or not _may_pass(failure, upload):
                        raise
                    log.info("upload of %s is interrupted, trying again: %s", self._digest, failure)
                    if self._cancelled.wait(_FIRST_PAUSE * 2**attempt):
                        raise Cancelled("context canceled") from failure
                    upload = self._resumed(upload, failure)

    def _resumed(self, upload: Upload | None, failure: SystemFailure) -> Upload | None:
        """The upload from where it can go on, as the registry says; None if it has to begin again. Raises Refused."""
        if upload is None:
            return None
        try:
            found = self._writer.status(upload)
        except (SystemFailure, NotFound, Invalid) as error:
            log.info("the upload of %s cannot be resumed: %s", self._digest, error)
            return None
        if found and found.done > self._furthest:
            raise Refused(
                f"the registry says it has {found.done} bytes of {self._digest}, but only {self._furthest} were sent",
                416,
            ) from failure
        return found

    def _attempt(self, fd: int, upload: Upload) -> None:
        """Send the whole blob in one request, or the rest of it in chunks, if the registry wants those."""
        if not upload.done and not upload.smallest:
            self._writer.finish(upload, self._digest, self._slice(fd, 0, self._size))
            return
        chunk = max(_CHUNK, upload.smallest) if upload.smallest else self._size
        while upload.done < self._size:
            upload = self._writer.append(upload, self._slice(fd, upload.done, min(chunk, self._size - upload.done)))
        self._writer.finish(upload, self._digest, b"")

    def _slice(self, fd: int, start: int, size: int) -> _Slice:
        def told(gone: int) -> None:
            if self._cancelled.is_set():
                raise Cancelled("context canceled")
            self._moved = time.monotonic()
            self._furthest = max(self._furthest, start + gone)
            self._told_all(start + gone)

        return _Slice(fd, start, size, told)


def _may_pass(failure: SystemFailure, upload: Upload | None) -> bool:
    """Whether the upload may succeed in another attempt."""
    if not isinstance(failure, Refused):
        return True
    return failure.status >= 500 or failure.status in _PASSING or (failure.status == 404 and upload is not None)

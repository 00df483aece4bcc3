"""Progress as docker's clients draw it: an answer of JSON lines that begins when there is the first line to show.

Belongs to a request; its lines may come from any thread that works for it.
"""

import threading
from typing import Self

from engine.daemon.api.answers import JSON_TYPE
from engine.daemon.api.request import Request
from engine.daemon.api.streams import Stream
from engine.daemon.jsontext import Object
from engine.errors import CommandFailed, EngineError


class Progress:
    """Calls with a dict each are the lines. A failure before the first line is left to be a plain error answer."""

    def __init__(self, request: Request):
        self._request = request
        self._lock = threading.Lock()
        self._stream: Stream | None = None

    def __call__(self, line: Object) -> None:
        """Send a line. Raises ClientGone, which is to end the work that nobody waits for any more."""
        with self._lock:
            if self._stream is None:
                self._stream = self._request.stream(200, JSON_TYPE)
            self._stream.json(line)

    def begin(self) -> None:
        """Send the head now: from here on every failure is a line."""
        with self._lock:
            if self._stream is None:
                self._stream = self._request.stream(200, JSON_TYPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        """End the answer, with the failure as its last line when it has begun; only such a failure is settled here."""
        told = self._stream is not None and isinstance(error, EngineError)
        if told:
            detail = {"code": error.code} if isinstance(error, CommandFailed) else {}
            self({"error": str(error), "errorDetail": {**detail, "message": str(error)}})
        if self._stream is not None and (error is None or told):
            self._stream.close()
        return told

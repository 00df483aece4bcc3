"""Writes the progress of a pull, push, load or build as JSON lines in the form that docker's clients draw.

A Progress belongs to one request; any thread that works for the request may send its lines. The answer begins with the
first line.
"""

import threading

from engine.annotating import Self
from engine.daemon.api.answers import JSON_TYPE
from engine.daemon.api.request import Request
from engine.daemon.api.streams import Stream
from engine.daemon.jsontext import Object
from engine.errors import CommandFailed, EngineError


class Progress:
    """A function that sends its argument, a dict, as one line. A failure before the first line becomes a plain error
    answer.
    """

    def __init__(self, request: Request):
        self._request = request
        self._lock = threading.Lock()
        self._stream: Stream | None = None

    def __call__(self, line: Object) -> None:
        """Send a line. Raises ClientGone, which is to end the work, since no client waits for it any more."""
        with self._lock:
            if self._stream is None:
                self._stream = self._request.stream(200, JSON_TYPE)
            self._stream.json(line)

    def begin(self) -> None:
        """Send the head of the answer now: from here on every failure is sent as a line."""
        with self._lock:
            if self._stream is None:
                self._stream = self._request.stream(200, JSON_TYPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> bool:
        """End the answer. An EngineError of an answer that has begun becomes its last line; no other error is caught
        here.
        """
        told = self._stream is not None and isinstance(error, EngineError)
        if told:
            detail = {"code": error.code} if isinstance(error, CommandFailed) else {}
            self({"error": str(error), "errorDetail": {**detail, "message": str(error)}})
        if self._stream is not None and (error is None or told):
            self._stream.close()
        return told

"""The values a request handler returns for an answer with a whole body: status, content type, headers and body (JSON,
text or none).

Pure values; `connection` writes them to the client. Answers that are written piece by piece are `streams.Stream`.
"""

from engine.daemon import jsontext

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
# A container's output: plain bytes, or in frames that tell stdout from stderr.
RAW_STREAM = "application/vnd.docker.raw-stream"
MULTIPLEXED_STREAM = "application/vnd.docker.multiplexed-stream"


class Response:
    """One whole answer. `content_type` is empty where there is no body at all (204, 304); `fields` are
    further headers.
    """

    __slots__ = ("body", "content_type", "fields", "status")

    def __init__(self, status: int, content_type: str, body: bytes, fields: tuple[tuple[str, str], ...] = ()):
        self.status = status
        self.content_type = content_type
        self.body = body
        self.fields = fields


class Json(Response):
    """An answer whose body is a value as JSON. The body ends with a newline, as Go's encoder writes it."""

    __slots__ = ()

    def __init__(self, value: object, status: int = 200, fields: tuple[tuple[str, str], ...] = ()):
        super().__init__(status, JSON_TYPE, encode_json(value) + b"\n", fields)


class Text(Response):
    """An answer whose body is plain text in UTF-8."""

    __slots__ = ()

    def __init__(self, text: str, status: int = 200, fields: tuple[tuple[str, str], ...] = ()):
        super().__init__(status, TEXT_TYPE, text.encode("utf-8", "replace"), fields)


class Empty(Response):
    """An answer without content type and body; a status that may have a body (200, 201) gets `Content-Length: 0`."""

    __slots__ = ()

    def __init__(self, status: int = 204, fields: tuple[tuple[str, str], ...] = ()):
        super().__init__(status, "", b"", fields)


def encode_json(value: object) -> bytes:
    """A value as compact JSON in UTF-8; half of a surrogate pair, which UTF-8 cannot carry, becomes `?`."""
    return jsontext.compact(value).encode("utf-8", "replace")

"""What a handler answers with, when it does not stream: a status, a content type and the whole body.

Pure values; the connection writes them.
"""

import json

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
# Of what a container says: bytes as they are, or in frames that tell stdout from stderr.
RAW_STREAM = "application/vnd.docker.raw-stream"
MULTIPLEXED_STREAM = "application/vnd.docker.multiplexed-stream"

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class Response:
    """One whole answer. `content_type` is empty where there is no body at all (204, 304); `fields`: further headers."""

    __slots__ = ("body", "content_type", "fields", "status")

    def __init__(self, status: int, content_type: str, body: bytes, fields: tuple[tuple[str, str], ...] = ()):
        self.status = status
        self.content_type = content_type
        self.body = body
        self.fields = fields


class Json(Response):
    """A value as JSON, ended by a line end as Go's encoder does."""

    __slots__ = ()

    def __init__(self, value: object, status: int = 200, fields: tuple[tuple[str, str], ...] = ()):
        super().__init__(status, JSON_TYPE, encode_json(value) + b"\n", fields)


class Text(Response):
    """Plain text."""

    __slots__ = ()

    def __init__(self, text: str, status: int = 200, fields: tuple[tuple[str, str], ...] = ()):
        super().__init__(status, TEXT_TYPE, text.encode("utf-8", "replace"), fields)


class Empty(Response):
    """No content type; a status that may have a body (200, 201) says `Content-Length: 0`."""

    __slots__ = ()

    def __init__(self, status: int = 204, fields: tuple[tuple[str, str], ...] = ()):
        super().__init__(status, "", b"", fields)


def encode_json(value: object) -> bytes:
    """A value as compact JSON in UTF-8; half of a surrogate pair, which UTF-8 cannot carry, becomes `?`."""
    return _encode(value).encode("utf-8", "replace")

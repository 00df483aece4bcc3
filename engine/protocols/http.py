"""Parses HTTP/1.1 request heads and chunked bodies, and formats response heads, as pure functions on bytes.

The thread of a connection calls it; it touches no descriptor and keeps no state except in a `ChunkDecoder`. It is
strict wherever bytes could be read in two ways (RFC 9112): line ends are CRLF, a field name is a token without a space
after it, no line is folded, a body has one length. Anything else raises `BadRequest`. After that the end of the request
is unknown, and the connection must be closed.
"""

import time
from collections.abc import Callable

from engine.errors import Invalid
from engine.regex import regex

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HTTP_2 = b"PRI * HTTP/2.0\r\n\r\n"
"""The head of the request as which HTTP/2 begins where it needs no upgrade (RFC 9113 section 3.4); "SM" follows it."""
HEAD_LIMIT = 64 * 1024
CHUNK_LINE_LIMIT = 1024
TRAILER_LIMIT = 8 * 1024

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE = r"[^\x00-\x08\x0a-\x1f\x7f]*"
_REQUEST_LINE = regex(rf"({_TOKEN}) ([!-~\x80-\xff]+) HTTP/1\.([0-9])\r\n")
_FIELD = regex(rf"({_TOKEN}):({_VALUE})\r\n")
_TRAILER = regex(rf"{_TOKEN}:{_VALUE}".encode("latin-1"))
_BARE_LINE_FEED = regex(rb"(?<!\r)\n")
_BAD_START = regex(rb"[^!#$%&'*+\-.^_`|~0-9A-Za-z\r]")
_AUTHORITY = regex(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#]*")
_BAD_ESCAPE = regex(r"%(?![0-9A-Fa-f]{2})")
_ENCODED = regex(rb"%([0-9A-Fa-f]{2})")
_CHUNK_LINE = regex(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_LENGTH = regex(r"[0-9]{1,18}")

_REASONS = {
    101: "UPGRADED",  # docker's own word; RFC 9110 leaves the reason phrase free
    200: "OK",
    201: "Created",
    204: "No Content",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    426: "Upgrade Required",
    500: "Internal Server Error",
    501: "Not Implemented",
    503: "Service Unavailable",
}
_STATUS_LINES = {status: f"HTTP/1.1 {status} {reason}\r\n" for status, reason in _REASONS.items()}


_State = Callable[[bytes], "_State | None"]
"""A function that takes the next line of a chunked body and returns the function for the line after it, None after the
last.
"""


class BadRequest(Invalid):
    """The bytes are no request, or could be read in more than one way; the connection cannot be used further."""


class Head:
    """The parsed head of a request. It never changes: a connection may have the same one for several requests.

    path is percent-decoded, query is as it came; headers have lower-case names, and the values of fields that came more
    than once are joined by a comma. length is the body's length in bytes, 0 without a body, None when it is chunked.
    """

    __slots__ = ("expects_continue", "headers", "keep_alive", "length", "method", "minor", "path", "query")

    def __init__(self, method: str, path: str, query: str, minor: int, headers: dict[str, str]):
        self.method = method
        self.path = path
        self.query = query
        self.minor = minor
        self.headers = headers
        self.length = _body_length(headers, minor)
        options = tokens(headers.get("connection", ""))
        self.keep_alive = minor > 0 and "close" not in options
        self.expects_continue = minor > 0 and headers.get("expect", "").lower() == "100-continue"


def percent_decoded(data: bytes) -> bytes:
    """The bytes with percent-encoding decoded (RFC 3986 section 2.1); a stray `%` stands for itself.

    `urllib.parse` is not used: with its imports it would take half a megabyte of an idle daemon.
    """
    return _ENCODED.sub(lambda found: bytes.fromhex(found[1].decode()), data) if b"%" in data else data


def end_of_head(data: bytes) -> int:
    """The length of the head at the start of `data`, its empty line included, or -1 while the end has not come yet.

    Raises BadRequest as soon as the bytes can no longer become a head.
    """
    end = data.find(b"\r\n\r\n") + 4
    if 4 <= end <= HEAD_LIMIT:
        return end
    if end > HEAD_LIMIT or len(data) >= HEAD_LIMIT:
        raise BadRequest("request header too long")
    if _BARE_LINE_FEED.search(data) or (data and _BAD_START.match(data)):
        raise BadRequest("malformed HTTP request")
    return -1


def parse_head(data: bytes) -> Head:
    """Parse a whole head, its empty line included; that of HTTP/2 is a request of its own. Raises BadRequest."""
    if data == HTTP_2:
        return Head("PRI", "*", "", 1, {})
    text = data.decode("latin-1")
    line = _REQUEST_LINE.match(text)
    if line is None:
        raise BadRequest("malformed HTTP request line")
    method, target, minor = line.groups()
    headers: dict[str, str] = {}
    position, end = line.end(), len(text) - 2
    while position < end:
        field = _FIELD.match(text, position)
        if field is None:
            raise BadRequest("malformed HTTP header")
        name, value = field.group(1).lower(), field.group(2).strip(" \t")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
        position = field.end()
    path, query = split_target(target)
    return Head(method, path, query, int(minor), headers)


def split_target(target: str) -> tuple[str, str]:
    """The decoded path and the raw query of a target in origin, absolute or asterisk form. Raises BadRequest."""
    if not target.startswith("/"):
        authority = _AUTHORITY.match(target)
        if authority is not None:
            target = target[authority.end() :]
            if not target.startswith("/"):
                target = "/" + target
        elif target != "*":
            raise BadRequest("malformed request target")
    path, _, query = target.partition("?")
    if "%" in path or not path.isascii():
        if _BAD_ESCAPE.search(path):
            raise BadRequest("malformed request target: invalid URL escape")
        path = percent_decoded(path.encode("latin-1")).decode("utf-8", "replace")
        if "\0" in path:
            raise BadRequest("malformed request target: it holds a NUL byte")
    return path, query


def tokens(value: str) -> list[str]:
    """The elements of a comma-separated field, in lower case."""
    return [element.strip(" \t").lower() for element in value.split(",")] if value else []


def _body_length(headers: dict[str, str], minor: int) -> int | None:
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    if coding is not None:
        # A second length beside the chunks is used to smuggle requests past a proxy, so it is refused instead of
        # resolved.
        if coding.lower() != "chunked" or length is not None or minor == 0:
            raise BadRequest("unsupported transfer encoding")
        return None
    if length is None:
        return 0
    if not _LENGTH.fullmatch(length):
        raise BadRequest(f"bad Content-Length {length[:32]!a}")
    return int(length)


class ChunkDecoder:
    """Decodes a body in the chunked coding (RFC 9112 section 7.1), which may come in pieces of any size.

    Trailer fields are checked for their form and dropped.
    """

    __slots__ = ("_inside", "_line", "_state", "_trailer")

    def __init__(self) -> None:
        self._state: _State | None = self._size
        self._line = b""
        self._inside = 0
        self._trailer = 0

    @property
    def ended(self) -> bool:
        """True once the last chunk and the trailer have been seen."""
        return self._state is None

    def feed(self, data: bytes) -> tuple[list[bytes], int]:
        """Decode further bytes: returns the payload in pieces, and how many bytes of `data` belonged to the body.

        Raises BadRequest, after which the decoder cannot be used.
        """
        pieces: list[bytes] = []
        position = 0
        while position < len(data) and self._state is not None:
            if self._inside:
                piece = data[position : position + self._inside]
                pieces.append(piece)
                self._inside -= len(piece)
                position += len(piece)
                continue
            position, line = self._take_line(data, position)
            if line is not None:
                self._state = self._state(line)
        return pieces, position

    def _take_line(self, data: bytes, position: int) -> tuple[int, bytes | None]:
        end = data.find(b"\n", position)
        stop = len(data) if end < 0 else end + 1
        line = self._line + data[position:stop]
        if len(line) > CHUNK_LINE_LIMIT:
            raise BadRequest("malformed chunked encoding: line too long")
        if end < 0:
            self._line = line
            return stop, None
        self._line = b""
        if not line.endswith(b"\r\n"):
            raise BadRequest("malformed chunked encoding")
        return stop, line[:-2]

    def _size(self, line: bytes) -> _State:
        size = _CHUNK_LINE.fullmatch(line)
        if size is None:
            raise BadRequest("malformed chunked encoding: invalid chunk size")
        self._inside = int(size.group(1), 16)
        return self._after_data if self._inside else self._trailer_line

    def _after_data(self, line: bytes) -> _State:
        if line:
            raise BadRequest("malformed chunked encoding: chunk longer than its size")
        return self._size

    def _trailer_line(self, line: bytes) -> _State | None:
        self._trailer += len(line) + 2
        if not line:
            return None
        if self._trailer > TRAILER_LIMIT or not _TRAILER.fullmatch(line):
            raise BadRequest("malformed chunked encoding: bad trailer")
        return self._trailer_line


def date(second: int) -> str:
    """A moment, in seconds since 1970, as a Date field has it (RFC 9110 section 5.6.7).

    strftime is not used, because its names follow the locale.
    """
    moment = time.gmtime(second)
    return (
        f"{_DAYS[moment.tm_wday]}, {moment.tm_mday:02d} {_MONTHS[moment.tm_mon - 1]} {moment.tm_year}"
        f" {moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d} GMT"
    )


def response_head(status: int, fields: str) -> bytes:
    """A response's head. `fields`: its header lines, each ended by CRLF; `field` makes those whose values vary."""
    return f"{_STATUS_LINES[status]}{fields}\r\n".encode("latin-1")


def field(name: str, value: str) -> str:
    """One header line. Raises ValueError for a value that holds a line end or NUL byte, and so could
    inject a header.
    """
    if "\r" in value or "\n" in value or "\0" in value:
        raise ValueError(f"the value of {name} holds a line end")
    return f"{name}: {value}\r\n"

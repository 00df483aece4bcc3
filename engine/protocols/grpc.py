"""gRPC over HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md): messages within a body, statuses, timeouts. Pure.

Messages are not compressed: this end never says that it can read that.
"""

import base64
import re
import struct
from urllib.parse import quote, unquote

from engine.dataclass import dataclass
from engine.errors import EngineError, Invalid
from engine.protocols.hpack import Field

OK, CANCELLED, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = range(6)
ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED = range(6, 11)
OUT_OF_RANGE, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS, UNAUTHENTICATED = range(11, 17)

_HEAD = struct.Struct(">BI")
_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])", re.ASCII)
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
CONTENT_TYPE = b"application/grpc"


@dataclass(frozen=True, slots=True)
class Status:
    """How a call has ended. details: a google.rpc.Status in binary form, empty for none"""

    code: int = OK
    words: str = ""
    details: bytes = b""


class Failed(EngineError):
    """A call has ended with another status than OK."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.words)
        self.status = status


def message(data: bytes) -> bytes:
    """One message as it stands in a body."""
    return _HEAD.pack(0, len(data)) + data


class Messages:
    """Takes the messages out of a body that comes in pieces. largest: bytes of one message"""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._waiting = bytearray()

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """The messages that are whole with these bytes. Raises Failed for what may not be."""
        source: bytes | bytearray = data
        if self._waiting:
            self._waiting += data
            source = self._waiting
        found, place, end = [], 0, len(source)
        with memoryview(source) as view:
            while end - place >= _HEAD.size:
                compressed, length = _HEAD.unpack_from(view, place)
                if compressed:
                    raise Failed(Status(UNIMPLEMENTED, "grpc: a compressed message"))
                if length > self._largest:
                    raise Failed(
                        Status(RESOURCE_EXHAUSTED, f"grpc: a message of {length} bytes, more than {self._largest}")
                    )
                begin = place + _HEAD.size
                if end - begin < length:
                    break
                place = begin + length
                found.append(bytes(view[begin:place]))
        if source is self._waiting:
            del self._waiting[:place]
        else:
            self._waiting = bytearray(source[place:])
        return found

    @property
    def within(self) -> bool:
        """Whether the beginning of a further message has come."""
        return bool(self._waiting)

    def end(self) -> None:
        """The body has ended. Raises Failed where it ends within a message."""
        if self.within:
            raise Failed(Status(INTERNAL, "grpc: the body ends within a message"))


def trailers(status: Status) -> list[Field]:
    """The fields that end an answer."""
    fields = [(b"grpc-status", str(status.code).encode())]
    if status.words:
        # A field may not begin or end with a blank (RFC 9113, section 8.2.1).
        inner = status.words.strip(" ")
        before, _, after = status.words.partition(inner) if inner else (status.words, "", "")
        words = "%20" * len(before) + quote(inner, safe=_PLAIN, errors="replace") + "%20" * len(after)
        fields.append((b"grpc-message", words.encode()))
    if status.details:
        fields.append((b"grpc-status-details-bin", base64.b64encode(status.details).rstrip(b"=")))
    return fields


def status_of(fields: list[Field]) -> Status:
    """The status that an answer's last fields tell; UNKNOWN where they tell none."""
    found = dict(fields)
    code = found.get(b"grpc-status", b"")
    if not code.isdigit() or len(code) > 2:
        return Status(
            UNKNOWN, f"grpc: an answer without a status: {found.get(b':status', b'').decode('ascii', 'replace')}"
        )
    words = unquote(found.get(b"grpc-message", b"").decode("ascii", "replace"))
    coded = found.get(b"grpc-status-details-bin", b"")
    try:
        details = base64.b64decode(coded + b"=" * (-len(coded) % 4), validate=True)
    except ValueError:
        details = b""
    return Status(int(code), words, details)


def timeout(value: bytes) -> float:
    """The seconds of a `grpc-timeout`. Raises Invalid."""
    parts = _TIMEOUT.fullmatch(value)
    if parts is None:
        raise Invalid(f"grpc: not a timeout: {value[:20].decode('ascii', 'replace')}")
    return int(parts[1]) * _UNITS[parts[2]]

"""Encodes and decodes netlink messages: headers, attributes, and the kernel's acknowledgements.

Pure: values in, bytes out and back; it touches no descriptor. Layout: linux/netlink.h, in host byte order unless a name
says otherwise. It is kept small because the spawner loads this module too.
"""

import struct
from collections.abc import Iterator

from engine.dataclass import dataclass

REQUEST = 0x1
ACKNOWLEDGE = 0x4
INTERRUPTED = 0x10
DUMP = 0x300
REPLACE = 0x100
EXCLUSIVE = 0x200
CREATE = 0x400
APPEND = 0x800

ERROR = 2
DONE = 3
NESTED = 0x8000

_KIND = 0x3FFF
_CAPPED = 0x100
_EXPLAINED = 0x200
_EXPLANATION = 1
_HEADER = struct.Struct("=IHHII")
_ERROR = struct.Struct("=i")
_ATTRIBUTE = struct.Struct("=HH")

Request = tuple[int, int, bytes]
"""A request that has no sequence number yet: (kind, flags, payload)."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message from the kernel; its payload is a view of the datagram."""

    kind: int
    flags: int
    sequence: int
    payload: memoryview


def encode(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """One message: struct nlmsghdr and its payload (whose length the caller keeps a multiple of 4)."""
    return _HEADER.pack(_HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute: struct nlattr, its payload, and zeros up to a multiple of 4."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) & 3)


def nested(kind: int, *attributes: bytes) -> bytes:
    """An attribute that holds other attributes."""
    return attribute(kind | NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    """An attribute with a text and its final zero."""
    return attribute(kind, value.encode("utf-8", "surrogateescape") + b"\0")


def u8(kind: int, value: int) -> bytes:
    """An attribute of 8 bits."""
    return attribute(kind, bytes((value,)))


def u16(kind: int, value: int) -> bytes:
    """An attribute of 16 bits in host byte order."""
    return attribute(kind, struct.pack("=H", value))


def u32(kind: int, value: int) -> bytes:
    """An attribute of 32 bits in host byte order."""
    return attribute(kind, struct.pack("=I", value))


def be16(kind: int, value: int) -> bytes:
    """An attribute of 16 bits in network byte order."""
    return attribute(kind, value.to_bytes(2, "big"))


def be32(kind: int, value: int) -> bytes:
    """An attribute of 32 bits in network byte order."""
    return attribute(kind, value.to_bytes(4, "big"))


def messages(datagram: bytes) -> Iterator[Message]:
    """The messages in one datagram; raises ValueError for an impossible length."""
    at, view = 0, memoryview(datagram)
    while at + _HEADER.size <= len(view):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(view, at)
        if length < _HEADER.size or at + length > len(view):
            raise ValueError(f"a netlink message with an impossible length of {length} bytes")
        yield Message(kind, flags, sequence, view[at + _HEADER.size : at + length])
        at += (length + 3) & ~3


def listed(payload: bytes | memoryview, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The attributes from `start` on as (kind, payload), in their order; raises ValueError for an impossible length."""
    at = start
    while at + _ATTRIBUTE.size <= len(payload):
        length, kind = _ATTRIBUTE.unpack_from(payload, at)
        if length < _ATTRIBUTE.size or at + length > len(payload):
            raise ValueError(f"a netlink attribute with an impossible length of {length} bytes")
        yield kind & _KIND, bytes(payload[at + _ATTRIBUTE.size : at + length])
        at += (length + 3) & ~3


def attributes(payload: bytes | memoryview, start: int = 0) -> dict[int, bytes]:
    """The attributes from `start` on by kind; of a kind that occurs twice the last one counts. Raises ValueError."""
    return dict(listed(payload, start))


def refusal(answer: Message) -> tuple[int, str]:
    """(errno, text) of an ERROR or DONE message: 0 for success, and the kernel's explanation or ""."""
    if len(answer.payload) < _ERROR.size:
        return 0, ""
    code = -_ERROR.unpack_from(answer.payload, 0)[0]
    start = _ERROR.size
    if answer.kind == ERROR:
        # After the code comes the header of the request; the whole request follows unless the socket asked for less.
        kept = _HEADER.size if answer.flags & _CAPPED else _HEADER.unpack_from(answer.payload, start)[0]
        start += (kept + 3) & ~3
    if not answer.flags & _EXPLAINED:
        return code, ""
    words = attributes(answer.payload, start).get(_EXPLANATION, b"")
    return code, words.rstrip(b"\0").decode("utf-8", "replace")

"""Netlink messages as bytes: headers, attributes, and the kernel's acknowledgements.

Pure: values in, bytes out and back; it touches no descriptor. Layout: linux/netlink.h, host byte order but where a name
says otherwise. The spawner has this module too, so it is small.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

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
"""A request before it has its number: kind, flags, payload."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message that the kernel sent, its payload a view of the datagram."""

    kind: int
    flags: int
    sequence: int
    payload: memoryview


def encode(kind: int, flags: int, sequence: int, payload: bytes) -> bytes:
    """One message: struct nlmsghdr and its payload (whose length the caller keeps a multiple of 4)."""
    return _HEADER.pack(_HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute: struct nlattr, its payload, and what it takes to end at a multiple of 4."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind) + payload + bytes(-len(payload) & 3)


def nested(kind: int, *attributes: bytes) -> bytes:
    """An attribute that holds other attributes."""
    return attribute(kind | NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    """An attribute with a text and the zero behind it."""
    return attribute(kind, value.encode("utf-8", "surrogateescape") + b"\0")


def u8(kind: int, value: int) -> bytes:
    """An attribute of 8 bits."""
    return attribute(kind, bytes((value,)))


def u16(kind: int, value: int) -> bytes:
    """An attribute of 16 bits in the host's order."""
    return attribute(kind, struct.pack("=H", value))


def u32(kind: int, value: int) -> bytes:
    """An attribute of 32 bits in the host's order."""
    return attribute(kind, struct.pack("=I", value))


def be16(kind: int, value: int) -> bytes:
    """An attribute of 16 bits in the network's order."""
    return attribute(kind, value.to_bytes(2, "big"))


def be32(kind: int, value: int) -> bytes:
    """An attribute of 32 bits in the network's order."""
    return attribute(kind, value.to_bytes(4, "big"))


def messages(datagram: bytes) -> Iterator[Message]:
    """The messages in one datagram; ValueError where a length cannot be."""
    at, view = 0, memoryview(datagram)
    while at + _HEADER.size <= len(view):
        length, kind, flags, sequence, _ = _HEADER.unpack_from(view, at)
        if length < _HEADER.size or at + length > len(view):
            raise ValueError(f"a netlink message of {length} bytes")
        yield Message(kind, flags, sequence, view[at + _HEADER.size : at + length])
        at += (length + 3) & ~3


def listed(payload: bytes | memoryview, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """The attributes from `start` on as (kind, payload), in their order; ValueError where a length cannot be."""
    at = start
    while at + _ATTRIBUTE.size <= len(payload):
        length, kind = _ATTRIBUTE.unpack_from(payload, at)
        if length < _ATTRIBUTE.size or at + length > len(payload):
            raise ValueError(f"a netlink attribute of {length} bytes")
        yield kind & _KIND, bytes(payload[at + _ATTRIBUTE.size : at + length])
        at += (length + 3) & ~3


def attributes(payload: bytes | memoryview, start: int = 0) -> dict[int, bytes]:
    """The same by kind; of one that is there twice the last."""
    return dict(listed(payload, start))


def refusal(answer: Message) -> tuple[int, str]:
    """The errno of an ERROR or DONE message, 0 for success, and what the kernel says of it in words (or nothing)."""
    if len(answer.payload) < _ERROR.size:
        return 0, ""
    code = -_ERROR.unpack_from(answer.payload, 0)[0]
    start = _ERROR.size
    if answer.kind == ERROR:
        # Behind the code stands the header of the request, and all of it where the socket did not ask for less.
        kept = _HEADER.size if answer.flags & _CAPPED else _HEADER.unpack_from(answer.payload, start)[0]
        start += (kept + 3) & ~3
    if not answer.flags & _EXPLAINED:
        return code, ""
    words = attributes(answer.payload, start).get(_EXPLANATION, b"")
    return code, words.rstrip(b"\0").decode("utf-8", "replace")

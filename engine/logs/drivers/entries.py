"""Packs lines as the entries that a log plugin reads from its FIFO: a length and a message of protobuf each.

Pure; used by the process that forwards a container's lines. moby's daemon/logger/internal/logdriver/entry.proto
declares the messages. `engine.protocols.protobuf` is not used, because it loads `typing`, which that process can do
without.
"""

from engine.logs.drivers.sender import Partial

_SOURCES = {1: b"stdout", 2: b"stderr"}
_VARINT, _BYTES = 0, 2


def entry(stream: int, line: bytes, partial: Partial | None, time_ns: int) -> bytes:
    """One line, or a piece of one."""
    message = _bytes(1, _SOURCES[stream]) + _number(2, time_ns) + _bytes(3, line)
    if partial is not None:
        identity, ordinal, last = partial
        told = _number(1, int(last)) + _bytes(2, identity.encode()) + _number(3, ordinal)
        message += _number(4, 1) + _bytes(5, told)
    return len(message).to_bytes(4, "big") + message


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value if value else b""


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _varint(number: int) -> bytes:
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)

"""The parts of MessagePack (github.com/msgpack/msgpack, spec.md) that Fluentd's forward protocol needs.

Pure; used by the process that sends a container's lines to Fluentd. What is read is hostile: only the one answer that
the protocol has is understood.
"""

import struct
from collections.abc import Mapping

from engine.errors import Invalid

_TEXTS = ((0xD9, ">BB", 0xFF), (0xDA, ">BH", 0xFFFF), (0xDB, ">BI", 0xFFFFFFFF))
_SHORT = 31
_EVENT_TIME = struct.Struct(">BBII")  # fixext 8 of type 0: seconds, nanoseconds
_INT64 = struct.Struct(">Bq")
_ACK = b"ack"


def text(value: bytes) -> bytes:
    """A text, or what a container has written in its place: `str` takes any bytes."""
    if len(value) <= _SHORT:
        return bytes((0xA0 | len(value),)) + value
    for code, form, most in _TEXTS:
        if len(value) <= most:
            return struct.pack(form, code, len(value)) + value
    raise Invalid("a text of more than 4 GB")


def number(value: int) -> bytes:
    """A number of 64 bits."""
    return _INT64.pack(0xD3, value)


def moment(time_ns: int) -> bytes:
    """An EventTime, which is exact to the nanosecond."""
    return _EVENT_TIME.pack(0xD7, 0x00, time_ns // 10**9 & 0xFFFFFFFF, time_ns % 10**9)


def array(*values: bytes) -> bytes:
    """An array of at most 15 values that are packed already."""
    return bytes((0x90 | len(values),)) + b"".join(values)


def table(values: Mapping[str, bytes]) -> bytes:
    """A map of texts to values that are packed already; at most 65,535."""
    head = bytes((0x80 | len(values),)) if len(values) <= 15 else struct.pack(">BH", 0xDE, len(values))
    return head + b"".join(text(name.encode("utf-8", "surrogateescape")) + value for name, value in values.items())


def acknowledged(data: bytes) -> bytes:
    """The id in `{"ack": ID}`; empty while some of that has not come, or for anything else."""
    head = bytes((0x81,)) + text(_ACK)
    if not data.startswith(head) or len(data) == len(head):
        return b""
    code, rest = data[len(head)], data[len(head) + 1 :]
    if code & 0xE0 == 0xA0:
        size = code & _SHORT
    elif code == 0xD9 and rest:
        size, rest = rest[0], rest[1:]
    else:
        return b""
    return rest[:size] if len(rest) >= size else b""

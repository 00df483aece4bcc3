"""The frames of HTTP/2 (RFC 9113, sections 4, 6 and 7): types, flags, forms, padding, and the codes of errors. Pure."""

import struct

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED = range(6)
FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR, CONNECT_ERROR, ENHANCE_YOUR_CALM = range(6, 12)
"""Why a stream or a connection ends (section 7)."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE = range(9)
CONTINUATION = 9
END_STREAM, ACK, END_HEADERS, PADDED, HAS_PRIORITY = 0x1, 0x1, 0x4, 0x8, 0x20
HEAD = struct.Struct(">HBBBI")  # the length's high 16 bits and low 8, type, flags, stream
SETTING = struct.Struct(">HI")
NUMBER = struct.Struct(">I")
GOAWAY_HEAD = struct.Struct(">II")
USUAL_SIZE = 16_384  # bytes of a frame, where nobody allows more
_MOST_PIECES = 1000


class Fault(Exception):
    """A connection error (section 5.4.1)."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


def unpadded(flags: int, payload: bytes) -> bytes:
    """A frame's contents without its padding (section 6.1)."""
    if not flags & PADDED:
        return payload
    if not payload:
        raise Fault(FRAME_SIZE_ERROR, "a frame without the length of its padding")
    if payload[0] >= len(payload):
        raise Fault(PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]


def run_of_data(buffer: bytearray, most: int) -> tuple[bytes, int]:
    """The contents of the DATA frames of one stream with which a buffer begins, and the bytes that the frames take.

    A long list comes as a frame for each of its entries. Of frames that are cut, empty or padded, or that end the
    stream, none is taken. most: bytes of contents
    """
    pieces: list[memoryview] = []
    place, end, first = 0, len(buffer), 0
    with memoryview(buffer) as view:
        while place + HEAD.size <= end and len(pieces) < _MOST_PIECES:
            high, low, kind, flags, stream = HEAD.unpack_from(buffer, place)
            length = high << 8 | low
            begin = place + HEAD.size
            if kind or flags or not 0 < length <= min(USUAL_SIZE, most) or begin + length > end:
                break
            first = first or stream
            if stream != first:
                break
            place, most = begin + length, most - length
            pieces.append(view[begin:place])
        data = b"".join(pieces)
        pieces.clear()  # or the buffer could not shrink
    return data, place

"""The server's side of WebSocket (RFC 6455) as a pure state machine: handshake, frames, masks and close codes.

Bytes in, events and bytes out; it touches no descriptor. A client may send one message or many frames: here its data is
one stream of bytes, which is passed on piece by piece as it comes. So no message is ever held whole, and none is too
large. A client that breaks the protocol ends it, with the code that the RFC names. Imported only when a client asks for
a WebSocket.
"""

import base64
import codecs
import hashlib
import struct

from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.protocols.http import Head, field, tokens

VERSION = "13"
_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES = 16

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_OPCODES = frozenset({_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG})
_LARGEST_CONTROL = 125

NORMAL, PROTOCOL_ERROR, NO_CODE, INVALID_DATA = 1000, 1002, 1005, 1007
# Section 7.4: the codes that may stand in a frame.
_CODES = (*range(1000, 1004), *range(1007, 1012), *range(3000, 5000))


class WrongVersion(Invalid):
    """The client asks for another version of the protocol; the answer must tell it ours."""


def handshake(method: str, head: Head) -> str:
    """The header lines of the 101 that accepts this request's upgrade. Raises Invalid, WrongVersion."""
    headers = head.headers
    if method != "GET" or head.minor < 1:
        raise Invalid("websocket: not a GET of HTTP/1.1")
    if "websocket" not in tokens(headers.get("upgrade", "")) or "upgrade" not in tokens(headers.get("connection", "")):
        raise Invalid("websocket: the request does not ask for an upgrade to websocket")
    if headers.get("sec-websocket-version", "") != VERSION:
        raise WrongVersion(f"websocket: version {VERSION} is spoken here")
    key = headers.get("sec-websocket-key", "")
    try:
        whole = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        whole = False
    if not whole:
        raise Invalid("websocket: Sec-WebSocket-Key is not 16 bytes in base64")
    return f"Upgrade: websocket\r\nConnection: Upgrade\r\n{field('Sec-WebSocket-Accept', accept(key))}"


def accept(key: str) -> str:
    """The value of Sec-WebSocket-Accept, which proves that the server has read the client's key."""
    return base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode(), usedforsecurity=False).digest()).decode()


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of messages, in the order in which the client sent them."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """The client sends no more; its code is NO_CODE when it gave none. No event follows this one."""

    code: int
    reason: str = ""


class _Broken(Exception):
    """The client broke the protocol."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Machine:
    """The protocol's state of one connection after its handshake.

    `receive` turns a client's bytes into events, and may append an answer (a pong, a close) to `out`. `send` and
    `close` append to `out` too. The owner sends the bytes in `out` and removes them from it.
    closing: our close frame is in `out` or sent, and no frame follows it
    closed: the client has closed, or has broken the protocol
    """

    def __init__(self, *, text: bool = False) -> None:
        """text: send data in text frames, as clients before API 1.28 expect."""
        self.out = bytearray()
        self.closing = False
        self.closed = False
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace") if text else None
        self._head = bytearray()
        self._left = 0  # bytes of the current frame's payload that are still to come
        self._mask = b""
        self._final = True
        self._opcode = _BINARY
        self._message = 0  # the opcode of the unfinished message, 0 for none
        self._check = codecs.getincrementaldecoder("utf-8")()
        self._control = bytearray()

    # From us to the client.

    def send(self, data: bytes) -> None:
        """Send bytes as one message; after `close` they are dropped."""
        if self._decoder is not None:
            data = self._decoder.decode(data).encode()
        if data and not self.closing:
            self._frame(_TEXT if self._decoder is not None else _BINARY, data)

    def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Send a close frame; a second call does nothing."""
        if not self.closing:
            told = b"" if code == NO_CODE else struct.pack("!H", code) + reason.encode()[: _LARGEST_CONTROL - 2]
            self._frame(_CLOSE, told)
            self.closing = True

    def _frame(self, opcode: int, payload: bytes) -> None:
        size = len(payload)
        if size <= _LARGEST_CONTROL:
            head = struct.pack("!BB", 0x80 | opcode, size)
        elif size <= 0xFFFF:
            head = struct.pack("!BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
        self.out += head
        self.out += payload

    # From the client to us.

    def receive(self, data: bytes) -> list[Data | Closed]:
        """The events in these bytes, which may be any part of the client's stream."""
        events: list[Data | Closed] = []
        place = 0
        try:
            while place < len(data) and not self.closed:
                if self._left:
                    piece = data[place : place + self._left]
                    place += len(piece)
                    self._payload(piece, events)
                else:
                    place = self._read_head(data, place, events)
        except _Broken as error:
            self.close(error.code, str(error))
            self._end(error.code, str(error), events)
        return events

    def _end(self, code: int, reason: str, events: list[Data | Closed]) -> None:
        self.closed = True
        events.append(Closed(code, reason))

    def _read_head(self, data: bytes, place: int, events: list[Data | Closed]) -> int:
        """Take the missing bytes of a frame's head; returns the position in `data` after them."""
        head = self._head
        while place < len(data):
            missing = _head_size(head) - len(head)
            head += data[place : place + missing]
            place = min(place + missing, len(data))
            if len(head) >= 2 and len(head) == _head_size(head):
                self._begin(bytes(head))
                head.clear()
                if not self._left:
                    self._payload(b"", events)
                break
        return place

    def _begin(self, head: bytes) -> None:
        """Check the complete head of a frame, and remember what its payload needs."""
        first, second = head[0], head[1]
        self._final, self._opcode = bool(first & 0x80), first & 0x0F
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack_from("!H", head, 2)
            shortest = 126
        elif size == 127:
            (size,) = struct.unpack_from("!Q", head, 2)
            shortest = 0x10000
        else:
            shortest = 0
        if first & 0x70 or self._opcode not in _OPCODES:
            raise _Broken(PROTOCOL_ERROR, "a reserved bit or opcode is set")
        if not second & 0x80:
            raise _Broken(PROTOCOL_ERROR, "a client's frame must be masked")
        if size < shortest or size >> 63:
            raise _Broken(PROTOCOL_ERROR, "a length that is not written in the shortest form")
        if self._opcode >= _CLOSE:
            if size > _LARGEST_CONTROL or not self._final:
                raise _Broken(PROTOCOL_ERROR, "a control frame that is too long or in pieces")
            self._control.clear()
        elif (self._opcode == _CONTINUATION) != bool(self._message):
            raise _Broken(
                PROTOCOL_ERROR, "a new message before the last one ended, or a continuation without a message"
            )
        elif self._opcode != _CONTINUATION:
            self._message = self._opcode
        self._left, self._mask = size, head[-4:]

    def _payload(self, piece: bytes, events: list[Data | Closed]) -> None:
        """Take the next bytes of the frame's payload, or the end of a frame that has none."""
        piece = _unmasked(piece, self._mask)
        turn = len(piece) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        self._left -= len(piece)
        if self._opcode >= _CLOSE:
            self._control += piece
            if not self._left:
                self._answer(bytes(self._control), events)
            return
        ends = self._final and not self._left
        if self._message == _TEXT:
            try:
                self._check.decode(piece, ends)
            except UnicodeDecodeError as error:
                raise _Broken(INVALID_DATA, "a text that is not UTF-8") from error
        if ends:
            self._message = 0
        if piece:
            events.append(Data(piece))

    def _answer(self, payload: bytes, events: list[Data | Closed]) -> None:
        """Handle a complete control frame."""
        if self._opcode == _PING and not self.closing:
            self._frame(_PONG, payload)
        if self._opcode != _CLOSE:
            return
        code, reason = NO_CODE, ""
        if payload:
            code = int.from_bytes(payload[:2])
            if len(payload) < 2 or code not in _CODES:
                raise _Broken(PROTOCOL_ERROR, "an invalid close code")
            try:
                reason = payload[2:].decode()
            except UnicodeDecodeError as error:
                raise _Broken(INVALID_DATA, "a reason that is not UTF-8") from error
        self.close(code)
        self._end(code, reason, events)


def _head_size(head: bytearray) -> int:
    """The length of this head, as far as its first bytes tell: two bytes, the extended length, and the mask."""
    if len(head) < 2:
        return 2
    return 2 + {126: 2, 127: 8}.get(head[1] & 0x7F, 0) + (4 if head[1] & 0x80 else 0)


def _unmasked(piece: bytes, mask: bytes) -> bytes:
    if not piece:
        return b""
    key = (mask * (len(piece) // 4 + 1))[: len(piece)]
    return (int.from_bytes(piece) ^ int.from_bytes(key)).to_bytes(len(piece))

"""Parses DNS queries and builds DNS answers as bytes (RFC 1035, RFC 6891).

Pure: bytes in, values and bytes out; it touches no descriptor. Whatever a container sends is parsed here first, so
every length is checked and no compression pointer is followed: a question has no use for compressed names. A name is
kept as it is on the wire, in lower case (a label's length is at most 63, which is no letter), and names are compared in
that form.
"""

import struct

HEADER = 12
A, PTR, AAAA, OPT, ANY = 1, 12, 28, 41, 255
INTERNET = 1
OK, FORMAT_ERROR, FAILED, NO_SUCH_NAME, NOT_DONE, REFUSED = 0, 1, 2, 3, 4, 5
SMALLEST = 512  # what every UDP client accepts (RFC 1035 4.2.1)
LARGEST = 65535

_TTL = 600
_OUR_SIZE = 1232  # bytes of a UDP message that no network fragments (RFC 9715)
_MOST_SAID = 16384
_RESPONSE = 0x8000
_KEPT = 0x0110  # recursion desired, checking disabled: copied from the query
_TRUNCATED = 0x0200
_RECURSES = 0x0080
_OPCODE = 0x7800
_HEAD = struct.Struct(">HHHHHH")
_TAIL = struct.Struct(">HH")
_RECORD = struct.Struct(">HHHIH")
_OPTIONS = struct.Struct(">BHHIH")
_TO_QUESTION = 0xC000 | HEADER
_DNSSEC = 0x8000
_BAD_VERSION = 1 << 24  # the upper bits of error code 16, in an OPT record's place of the time to live


class Malformed(ValueError):
    """Not a query that can be answered; `reply`: the answer to its sender, empty for none."""

    def __init__(self, reply: bytes = b"") -> None:
        super().__init__("not a query")
        self.reply = reply


class Query:
    """One query: its header, its one question, and what its OPT record says.

    name: on the wire, in lower case; kind, group: the question's type and class
    question: the bytes as received; end: where it ends; size: how long an answer by UDP may be; version: of EDNS, -1
        for none
    """

    __slots__ = ("dnssec", "end", "flags", "group", "kind", "name", "number", "question", "size", "version")

    def __init__(self, data: bytes) -> None:
        """Raises Malformed."""
        if len(data) < HEADER:
            raise Malformed
        self.number, self.flags, questions, answers, authorities, additional = _HEAD.unpack_from(data)
        if self.flags & _RESPONSE:
            raise Malformed  # an answer is never answered
        if self.flags & _OPCODE:
            raise Malformed(self._failure(NOT_DONE))
        end = _name_end(data, HEADER) if questions == 1 else -1
        if end < 0 or end + _TAIL.size > len(data):
            raise Malformed(self._failure(FORMAT_ERROR))
        self.name = data[HEADER:end].lower()
        self.kind, self.group = _TAIL.unpack_from(data, end)
        self.end = end + _TAIL.size
        self.question = data[HEADER : self.end]
        self.size, self.version, self.dnssec = SMALLEST, -1, 0
        if additional and not answers and not authorities and len(data) >= self.end + _OPTIONS.size:
            root, kind, size, extended, _ = _OPTIONS.unpack_from(data, self.end)
            if root == 0 and kind == OPT:
                self.size = min(max(size, SMALLEST), _MOST_SAID)
                self.version, self.dnssec = extended >> 16 & 0xFF, extended & _DNSSEC

    def _failure(self, code: int) -> bytes:
        return _HEAD.pack(self.number, _RESPONSE | self.flags & _OPCODE | self.flags & _KEPT | code, 0, 0, 0, 0)

    @property
    def single(self) -> bool:
        """True when the name has one label (or none)."""
        return not self.name[0] or self.name[0] + 2 == len(self.name)

    def answer(self, records: list[bytes], code: int = OK, limit: int = LARGEST, *, cut: bool = False) -> bytes:
        """The answer with these records; records that exceed the limit are left out. cut: some were left out before."""
        flags = _RESPONSE | self.flags & _KEPT | _RECURSES | code | _TRUNCATED * cut
        options = b""
        if self.version >= 0:
            extended = self.dnssec
            if self.version > 0:
                extended |= _BAD_VERSION
                records = []
            options = _OPTIONS.pack(0, OPT, _OUR_SIZE, extended, 0)
        room = limit - HEADER - len(self.question) - len(options)
        size = sum(map(len, records))
        if size > room:
            records = list(records)
            while size > room:
                size -= len(records.pop())
            flags |= _TRUNCATED
        head = _HEAD.pack(self.number, flags, 1, len(records), 0, bool(options))
        return b"".join((head, self.question, *records, options))


def record(kind: int, content: bytes) -> bytes:
    """One record that answers the question's own name."""
    return _RECORD.pack(_TO_QUESTION, kind, INTERNET, _TTL, len(content)) + content


def wire_name(text: str) -> bytes | None:
    """A name as it is on the wire, with its case; None for a text that is no name there (an empty or a long label)."""
    labels = [label.encode("utf-8", "surrogateescape") for label in text.removesuffix(".").split(".")]
    if any(not 0 < len(label) < 64 for label in labels):
        return None
    name = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    return name if len(name) <= 255 else None


def reverse_name(packed: bytes) -> bytes:
    """The name under which an address (4 or 16 bytes) is looked up (RFC 1035 3.5, RFC 3596)."""
    if len(packed) == 4:
        return b"".join(_label(b"%d" % byte) for byte in reversed(packed)) + b"\x07in-addr\x04arpa\0"
    return b"".join(_label(b"%c" % digit) for digit in reversed(packed.hex().encode())) + b"\x03ip6\x04arpa\0"


def fits(sent: bytes, received: bytes) -> bool:
    """Whether the received message answers the sent one: the number and the question are the same."""
    if len(received) < HEADER or received[:2] != sent[:2] or not received[2] & 0x80:
        return False
    if received[4:6] == b"\0\0":
        return received[3] & 0x0F != OK  # some servers leave the question out of a refusal
    end = _name_end(sent, HEADER) + _TAIL.size
    return received[4:6] == b"\0\1" and received[HEADER:end].lower() == sent[HEADER:end].lower()


def code_of(answer: bytes) -> int:
    """The response code of an answer: OK, NO_SUCH_NAME, FAILED, ..."""
    return answer[3] & 0x0F


def _label(text: bytes) -> bytes:
    return bytes((len(text),)) + text


def _name_end(data: bytes, at: int) -> int:
    """Where the name that begins here ends, -1 where there is none."""
    start = at
    while at < len(data):
        length = data[at]
        at += length + 1
        if length == 0:
            return at if at - start <= 255 else -1
        if length > 63:
            return -1
    return -1

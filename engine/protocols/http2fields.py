"""Which lists of fields may stand in HTTP/2 (RFC 9113, section 8): a request's, an answer's, trailers. Pure."""

from engine.protocols.hpack import Field

_HOP_BY_HOP = frozenset((b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"))
_REQUEST = frozenset((b":method", b":scheme", b":path"))


def good_request(fields: list[Field]) -> bool:
    """Whether these begin a request. CONNECT, which has no path, is none here."""
    special = _special(fields)
    if special is None:
        return False
    values = dict(fields[: len(special)])
    named = len(values) == len(special) and _REQUEST <= values.keys() <= _REQUEST | {b":authority"}
    return named and all(values[name] for name in _REQUEST)


def good_answer(fields: list[Field], ended: bool) -> bool:
    """Whether these begin an answer, or an interim one, after which another must come."""
    return _special(fields) == [b":status"] and not (ended and is_interim(fields))


def good_trailers(fields: list[Field], ended: bool) -> bool:
    """Whether these end a message."""
    return ended and _special(fields) == []


def _special(fields: list[Field]) -> list[bytes] | None:
    """The names that begin with a colon, which must come first; None where a field may not be in HTTP/2 at all."""
    special = [name for name, _ in fields if name.startswith(b":")]
    first = [name for name, _ in fields[: len(special)]]
    return special if special == first and all(map(_is_good, fields)) else None


def is_interim(fields: list[Field]) -> bool:
    """Whether these are an answer before the answer, such as 100."""
    return bool(fields) and fields[0][0] == b":status" and fields[0][1].startswith(b"1")


def _is_good(field: Field) -> bool:
    """Whether a field may stand in HTTP/2 (section 8.2)."""
    name, value = field
    bare = name.removeprefix(b":")
    if not bare or name != name.lower() or any(byte <= 0x20 or byte >= 0x7F or byte == 0x3A for byte in bare):
        return False
    if name in _HOP_BY_HOP or (name == b"te" and value != b"trailers"):
        return False
    if any(byte in value for byte in b"\0\r\n"):
        return False
    # Clients of gRPC in Go send the words of an error as they are, with blanks at their end.
    return name == b"grpc-message" or value == value.strip(b" \t")

"""What a connection of HTTP/2 tells its owner, and what it takes from a peer at most. Pure data."""

from engine.dataclass import dataclass
from engine.protocols.hpack import Field


@dataclass(frozen=True, slots=True)
class Limits:
    """What this end takes from a peer.

    streams: open at a time; window: bytes of a stream, and of the connection, that may wait here unread
    fields: bytes of one list of fields, each with 32 more; frames: of one list of fields
    vain: frames in a row that bring nothing forward (pings, settings, resets, empty data, ...)
    """

    streams: int = 100
    window: int = 1 << 20
    fields: int = 1 << 16
    frames: int = 16
    vain: int = 1000


@dataclass(frozen=True, slots=True)
class Headers:
    """A request or an answer begins, or trailers have come. ended: nothing follows on this stream"""

    stream: int
    fields: list[Field]
    ended: bool


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a body; whoever has used them calls `consumed` with `taken`, which counts the padding too."""

    stream: int
    data: bytes
    ended: bool
    taken: int


@dataclass(frozen=True, slots=True)
class Reset:
    """The peer, or this end because of what the peer did, has ended a stream before its end."""

    stream: int
    code: int


@dataclass(frozen=True, slots=True)
class Room:
    """More may be sent on this stream; 0: on the connection."""

    stream: int


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a `ping`."""

    data: bytes


@dataclass(frozen=True, slots=True)
class GoneAway:
    """The peer begins no streams and takes none beyond `last` any more."""

    last: int
    code: int
    words: str


@dataclass(frozen=True, slots=True)
class Broken:
    """The peer broke the protocol, and the connection is over once `to_send` was written."""

    code: int
    words: str


Event = Headers | Data | Reset | Room | Pong | GoneAway | Broken

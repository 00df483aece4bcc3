"""Packs and unpacks the short datagrams by which a daemon tells a monitor of clients that wait for its container.

Pure. The daemon makes them; `engine.monitor.waiters` and `_muxer/pump/waiters.c` read them. The first byte says which
it is:

    W + number, flags, four sizes, four texts   a waiting client, whose connection comes along: the texts go before an
                                                exit code of one, two and three digits, and after it
    A + number                                  the daemon has answered that client
    S                                           the end is recorded: the monitor answers the clients that wait for it
                                                and have lost their daemon
    R                                           the container is removed: the same for clients that wait for that

The monitor does not know what the texts are. Only a monitor whose `Started` says so (`keeps_waiters`) understands.
"""

import struct

from engine.dataclass import dataclass

WAITS, ANSWERED, SETTLED, REMOVED = b"W", b"A", b"S", b"R"
WORDS = frozenset({WAITS, ANSWERED, SETTLED, REMOVED})
FOR_REMOVAL, FULL_CLOSE = 1, 2
DIGITS = 3
"""The most digits that an exit code has."""
_HEAD = struct.Struct("=cQB4B")
HEAD_SIZE = _HEAD.size
"""The size of a W datagram before its texts, in bytes."""
_NUMBER = struct.Struct("=cQ")


@dataclass(frozen=True, slots=True)
class Wait:
    """A client that waits.

    number: the daemon's number for it; for_removal: it waits until the container is removed
    full_close: its socket tells a close from an end of sending, so only a close is a hang-up
    before: what is sent before a code of one, two and three digits; after: what follows the code
    """

    number: int
    for_removal: bool
    full_close: bool
    before: tuple[bytes, bytes, bytes]
    after: bytes

    def answer(self, code: int) -> bytes:
        """All that is sent to the client in the end."""
        digits = b"%d" % (code & 0xFF)
        return self.before[len(digits) - 1] + digits + self.after


def pack(wait: Wait) -> bytes:
    """The W datagram."""
    texts = (*wait.before, wait.after)
    flags = FOR_REMOVAL * wait.for_removal | FULL_CLOSE * wait.full_close
    return _HEAD.pack(WAITS, wait.number, flags, *map(len, texts)) + b"".join(texts)


def unpack(datagram: bytes) -> Wait:
    """The waiting client of a W datagram; ValueError if it is none."""
    if len(datagram) < _HEAD.size:
        raise ValueError("a waiting client's datagram is truncated")
    mark, number, flags, *sizes = _HEAD.unpack_from(datagram)
    if mark != WAITS or len(datagram) != _HEAD.size + sum(sizes):
        raise ValueError("not a datagram about a waiting client")
    texts, place = [], _HEAD.size
    for size in sizes:
        texts.append(datagram[place : place + size])
        place += size
    one, two, three, after = texts
    return Wait(number, bool(flags & FOR_REMOVAL), bool(flags & FULL_CLOSE), (one, two, three), after)


def pack_answered(number: int) -> bytes:
    """The A datagram."""
    return _NUMBER.pack(ANSWERED, number)


def unpack_answered(datagram: bytes) -> int | None:
    """The number of an A datagram, None if it is none."""
    if len(datagram) != _NUMBER.size or datagram[:1] != ANSWERED:
        return None
    number: int = _NUMBER.unpack(datagram)[1]
    return number

"""How a directory is sent (fsutil, types/{wire,stat}.proto)."""

from typing import Annotated, TypedDict

from engine.protocols.protobuf import UNSIGNED

STAT, REQUEST, DATA, FINISH, ERROR = range(5)
"""Types of packets."""


class Stat(TypedDict, total=False):
    """One file.

    path: relative, with `/`; mode: of Go's FileMode; modTime: in ns since 1970; linkname: of a symlink, or the file of
    whose contents this is another name
    """

    path: Annotated[str, 1]
    mode: Annotated[int, 2, UNSIGNED]
    uid: Annotated[int, 3, UNSIGNED]
    gid: Annotated[int, 4, UNSIGNED]
    size: Annotated[int, 5]
    modTime: Annotated[int, 6]
    linkname: Annotated[str, 7]
    devmajor: Annotated[int, 8]
    devminor: Annotated[int, 9]
    xattrs: Annotated[dict[str, bytes], 10]


class SentStat(TypedDict, total=False):
    """The same message as this engine sends it: a path of a container's need not be text."""

    path: Annotated[bytes, 1]
    mode: Annotated[int, 2, UNSIGNED]
    uid: Annotated[int, 3, UNSIGNED]
    gid: Annotated[int, 4, UNSIGNED]
    size: Annotated[int, 5]
    modTime: Annotated[int, 6]
    linkname: Annotated[bytes, 7]
    devmajor: Annotated[int, 8]
    devminor: Annotated[int, 9]
    xattrs: Annotated[dict[str, bytes], 10]


class SentPacket(TypedDict, total=False):
    """A `Packet` of this engine's."""

    type: Annotated[int, 1]
    stat: Annotated[SentStat | None, 2]
    ID: Annotated[int, 3, UNSIGNED]
    data: Annotated[bytes, 4]


class Packet(TypedDict, total=False):
    """One piece of the conversation. ID: the number of the file among all that were told"""

    type: Annotated[int, 1]
    stat: Annotated[Stat | None, 2]
    ID: Annotated[int, 3, UNSIGNED]
    data: Annotated[bytes, 4]


def data_of(message: bytes) -> tuple[int, memoryview] | None:
    """The ID and the data of a packet of data as clients write it; None for any other, which `protobuf.decode` reads.

    A large file comes in thousands of these, and its bytes need not be copied.
    """
    if message[:2] != b"\x08\x02":  # its type
        return None
    number, place = _small(message, 3) if message[2:3] == b"\x18" else (0, 2)  # the tag of its ID
    if message[place : place + 1] != b"\x22":  # the tag of its data
        return None
    length, place = _small(message, place + 1)
    return (number, memoryview(message)[place:]) if length and place + length == len(message) else None


def _small(message: bytes, place: int) -> tuple[int, int]:
    """A number of at most four bytes, and the place behind it; what is none is 0, and ends behind the message."""
    number = 0
    for shift, byte in enumerate(message[place : place + 4]):
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number, place + shift + 1
    return 0, len(message) + 1

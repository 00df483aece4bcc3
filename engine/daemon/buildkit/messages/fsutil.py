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

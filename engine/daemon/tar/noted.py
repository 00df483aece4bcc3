"""Notes on a file the owner that it cannot have, in a user namespace to which only one id is mapped.

Runs wherever a layer is unpacked or packed. There all files belong to that one user. A note is an attribute
`user.engine.owner` of the form `UID:GID:MODE` in decimal numbers, so only files and directories can have one. The
set-user-ID bit of a file of somebody else's would give root's rights away: such a bit is noted, and not set. Where more
ids are mapped, nothing is noted and no note is believed, since a container's users could write one.
"""

import errno
import os

from engine.dataclass import dataclass
from engine.kernel import userns
from engine.literals import natural

NOTE = "user.engine.owner"
_LARGEST = (0xFFFFFFFE, 0xFFFFFFFE, 0o7777)
_IDENTITY = 0o6000


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner and the permission bits that go with it."""

    uid: int
    gid: int
    mode: int


def give(fd: int, owner: Owner) -> int:
    """Give an open file or directory its owner, or note it; returns the permission bits to set then. Raises OSError."""
    if owner.uid == owner.gid == 0 or userns.ids() > 1:
        os.fchown(fd, owner.uid, owner.gid)
        return owner.mode
    try:
        os.setxattr(fd, NOTE, b"%d:%d:%d" % (owner.uid, owner.gid, owner.mode))
    except OSError as error:
        if error.errno != errno.ENOTSUP:  # a file system without such attributes: the owner is lost
            raise
    return owner.mode & ~_IDENTITY


def give_by_name(parent: int, name: str, owner: Owner) -> None:
    """The same for what cannot be opened, a link or a device: its owner is lost where it cannot be given."""
    if owner.uid == owner.gid == 0 or userns.ids() > 1:
        os.chown(name, owner.uid, owner.gid, dir_fd=parent, follow_symlinks=False)


def of(found: os.stat_result, attributes: dict[str, bytes]) -> Owner:
    """The owner of a file with this status: what is noted in its attributes, else what it has. Takes the note out."""
    note = attributes.pop(NOTE, b"") if userns.ids() == 1 else b""
    told = [natural(text, most) for text, most in zip(note.decode("latin-1").split(":"), _LARGEST, strict=False)]
    if len(told) == len(_LARGEST) and told[0] is not None and told[1] is not None and told[2] is not None:
        return Owner(told[0], told[1], told[2])
    return Owner(found.st_uid, found.st_gid, found.st_mode & 0o7777)

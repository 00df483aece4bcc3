"""Translates ids between a user namespace and the one around it, by the maps of that namespace (user_namespaces(7)).

Pure. An id that a map does not have is the overflow
id inside, as the kernel shows it; there is none for it outside.
"""

from engine.dataclass import dataclass
from engine.errors import Invalid

OVERFLOW = 65534
Map = tuple[tuple[int, int, int], ...]
"""(the first id inside, the first id outside, how many) of each range."""


@dataclass(frozen=True, slots=True)
class Ids:
    """The maps of one user namespace."""

    users: Map
    groups: Map

    @property
    def root(self) -> tuple[int, int]:
        """The uid and the gid outside that root has. Raises Invalid where root is not mapped."""
        return self.outside(0, 0)

    def outside(self, uid: int, gid: int) -> tuple[int, int]:
        """The uid and the gid outside of these inside. Raises Invalid for one that is not mapped."""
        return _outside(self.users, uid, "uid"), _outside(self.groups, gid, "gid")

    def inside(self, uid: int, gid: int) -> tuple[int, int]:
        """The uid and the gid inside of these outside."""
        return _inside(self.users, uid), _inside(self.groups, gid)


def _outside(wanted: Map, number: int, kind: str) -> int:
    for inside, outside, count in wanted:
        if inside <= number < inside + count:
            return outside + number - inside
    raise Invalid(f"the {kind} {number} is not mapped in the user namespace")


def _inside(wanted: Map, number: int) -> int:
    for inside, outside, count in wanted:
        if outside <= number < outside + count:
            return inside + number - outside
    return OVERFLOW


def text(wanted: Map) -> bytes:
    """What is written into uid_map or gid_map for this map."""
    return b"".join(b"%d %d %d\n" % each for each in wanted)


def parsed(data: str) -> Map:
    """The map in the text of a uid_map or gid_map."""
    found = []
    for line in data.splitlines():
        inside, outside, count = map(int, line.split())
        found.append((inside, outside, count))
    return tuple(found)

"""Capabilities of files, as a user namespace and the one around it have them."""

import struct

import pytest

from engine.errors import Invalid
from engine.kernel import filecaps
from engine.kernel.idmaps import Ids

IDS = Ids(((0, 1000, 10),), ((0, 2000, 1),))
PLAIN = struct.pack("<IIIII", 0x02000001, 1 << 10, 2, 3, 4)


def rooted(root: int) -> bytes:
    return struct.pack("<IIIIII", 0x03000001, 1 << 10, 2, 3, 4, root)


@pytest.mark.parametrize(("inside", "outside"), [(PLAIN, rooted(1000)), (rooted(3), rooted(1003)), (b"odd", b"odd")])
def test_there_and_back(inside: bytes, outside: bytes) -> None:
    assert filecaps.outside(inside, IDS) == outside
    assert filecaps.inside(outside, IDS) == inside


def test_a_root_that_is_not_mapped() -> None:
    with pytest.raises(Invalid, match="not mapped"):
        filecaps.outside(rooted(10), IDS)
    assert filecaps.inside(rooted(0), IDS) == b""

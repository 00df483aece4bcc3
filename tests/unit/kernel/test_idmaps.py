"""Ids inside and outside of a user namespace, by its maps."""

import pytest

from engine.errors import Invalid
from engine.kernel import idmaps
from engine.kernel.idmaps import Ids

IDS = Ids(((0, 1000, 10), (10, 5000, 100)), ((0, 2000, 1),))


@pytest.mark.parametrize(("inside", "outside"), [(0, 1000), (9, 1009), (10, 5000), (109, 5099)])
def test_each_range(inside: int, outside: int) -> None:
    assert IDS.outside(inside, 0) == (outside, 2000)
    assert IDS.inside(outside, 2000) == (inside, 0)


def test_root() -> None:
    assert IDS.root == (1000, 2000)


@pytest.mark.parametrize(("uid", "gid", "kind"), [(110, 0, "uid 110"), (0, 1, "gid 1")])
def test_what_is_not_mapped(uid: int, gid: int, kind: str) -> None:
    with pytest.raises(Invalid, match=f"the {kind} is not mapped"):
        IDS.outside(uid, gid)


@pytest.mark.parametrize("outside", [0, 999, 1010, 4999, 5100])
def test_who_is_not_mapped_is_nobody_inside(outside: int) -> None:
    assert IDS.inside(outside, outside) == (idmaps.OVERFLOW, idmaps.OVERFLOW)


def test_the_texts_of_the_kernel() -> None:
    assert idmaps.text(IDS.users) == b"0 1000 10\n10 5000 100\n"
    assert idmaps.parsed("         0       1000         10\n        10       5000        100\n") == IDS.users

"""Which ids a user may map, from the texts of subuid(5) files."""

import pytest

from engine.rootless import subordinate


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("me:100000:65536\n", [(100000, 65536)]),
        ("7:100000:65536\n", [(100000, 65536)]),
        ("other:1:2\nme:100000:65536\nme:300000:10\n", [(100000, 65536), (300000, 10)]),
        ("", []),
        ("me\nme:\nme:x:1\nme:1:\nme:-1:5\nme:1:0\nme:0:5\n\u0661:1:1\nme:\u0661:1\n", []),
        ("me:4294967294:1\nme:1:4294967295\nme:99999999999:1\n", []),
        ("me:5:1\n" * 1000, [(5, 1)] * 64),
    ],
)
def test_ranges_of_a_user(text, found):
    assert subordinate.ranges(text, ("me", "7")) == found


def test_root_is_the_user_and_the_others_follow():
    assert subordinate.arguments(7, []) == ["0", "7", "1"]
    assert subordinate.arguments(7, [(100, 10), (300, 5)]) == ["0", "7", "1", "1", "100", "10", "11", "300", "5"]

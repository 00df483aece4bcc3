"""Which ids a user may map, from the texts of subuid(5) files."""

import pytest

from engine.kernel import subids


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
    assert subids.ranges(text, ("me", "7")) == found


def test_ranges_of_all_users():
    assert subids.ranges("me:5:1\nother:7:2\n:1:1\nx\n") == [(5, 1), (7, 2), (1, 1)]


def test_a_file_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setitem(subids.FILES, "uid", str(tmp_path / "none"))
    assert subids.read("uid", ("me",)) == []

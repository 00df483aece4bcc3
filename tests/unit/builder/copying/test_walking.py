"""Walking a tree in the order of its names, with bounded memory and descriptors."""

import os
from pathlib import Path

import pytest

from engine.daemon.builder.copying import walking
from tests.harness.descriptors import none_left, open_below


def walked(top: Path, *more: object) -> list[str]:
    """The paths of all members."""
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return [member.path for member in walking.members(fd, *more)]
    finally:
        os.close(fd)


@pytest.mark.parametrize("most", [1, 3, 7, 50_000])
def test_members_come_in_order_however_many_names_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(walking, "_MOST_NAMES", most)
    for number in range(20):
        (tmp_path / f"d{number % 4}").mkdir(exist_ok=True)
        (tmp_path / f"d{number % 4}" / f"f{number}").touch()
        (tmp_path / f"f{number}").touch()
    (tmp_path / "link").symlink_to("d1")
    expected = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    assert walked(tmp_path) == [str(path) for path in expected]


def test_a_deep_tree_takes_few_descriptors(tmp_path: Path) -> None:
    here = tmp_path
    for _ in range(200):
        here = here / "d"
        here.mkdir()
        (here / "z").touch()
    with none_left():
        fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            most = max(open_below(tmp_path) for _ in walking.members(fd))
        finally:
            os.close(fd)
        assert 1 < most < 40
        assert len(walked(tmp_path)) == 400


def test_what_is_not_chosen_is_not_entered(tmp_path: Path) -> None:
    for name in ("a/b/c", "x/y"):
        (tmp_path / name).mkdir(parents=True)
    assert walked(tmp_path, lambda path, _: (path != "a", path != "x")) == ["a/b", "a/b/c", "x"]

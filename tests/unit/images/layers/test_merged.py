"""An image's layers are looked at as one tree, and no mount is left of it."""

import os
import stat
from pathlib import Path

import pytest

from engine.daemon.images.layers import merged

pytestmark = pytest.mark.root


@pytest.fixture
def layers(tmp_path: Path) -> Path:
    """Two layers: the upper one deletes a file of the lower one."""
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
    (tmp_path / "1/gone").touch()
    (tmp_path / "1/kept").touch()
    (tmp_path / "2/new").touch()
    os.mknod(tmp_path / "2/gone", stat.S_IFCHR | 0o600, os.makedev(0, 0))
    return tmp_path


def names(root: int) -> list[str]:
    """What is in the root."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("which", "found"),
    [(("1",), ["gone", "kept"]), (("1", "2"), ["kept", "new"]), (("2", "1"), ["gone", "kept", "new"])],
)
def test_layers_lie_on_each_other(layers: Path, which: tuple[str, ...], found: list[str]) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    assert merged.within(str(layers), which, names) == found
    assert Path("/proc/self/mountinfo").read_text() == before and sorted(os.listdir(layers)) == ["1", "2"]


def test_what_goes_wrong_is_raised_where_it_was_asked_for(layers: Path) -> None:
    def fail(_root: int) -> None:
        raise ValueError("here")

    for which in (("1",), ("1", "2")):
        with pytest.raises(ValueError, match=r"^here$"):
            merged.within(str(layers), which, fail)

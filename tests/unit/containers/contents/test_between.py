"""The differences of two trees that have nothing to do with each other."""

import os
from pathlib import Path

from engine.daemon.containers.contents import changes
from engine.daemon.containers.contents.changes import ADDED, DELETED, MODIFIED


def differences(before: Path, after: Path) -> dict[str, int]:
    """The kind of each change, by its path."""
    fds = [os.open(place, os.O_RDONLY | os.O_DIRECTORY) for place in (before, after)]
    try:
        return changes.between(*fds, lambda _, found: {change.path: change.kind for change in found})
    finally:
        for fd in fds:
            os.close(fd)


def test_all_kinds_of_changes_are_found(tmp_path: Path) -> None:
    """Also an empty /etc, which in a container would be the engine's own, and a file that differs in nothing but bytes.

    Archives have whole seconds alone, so the times of two such files are often the same.
    """
    before, after = tmp_path / "before", tmp_path / "after"
    for place in (before, after):
        (place / "same").mkdir(parents=True)
        (place / "same/f").write_text("x")
        (place / "bytes").write_text(place.name[:4])
        os.utime(place / "bytes", ns=(10**9, 10**9))
        os.utime(place / "same/f", ns=(10**9, 10**9))
    (before / "gone").write_text("")
    (after / "etc").mkdir()
    (after / "new").write_text("")
    assert differences(before, after) == {"/bytes": MODIFIED, "/etc": ADDED, "/gone": DELETED, "/new": ADDED}
    assert differences(after, after) == {}

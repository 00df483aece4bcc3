"""A file is there whole, or is not there; what was there before stays until then."""

import os

import pytest

from engine.daemon import dataroot
from engine.kernel import wholefile


def test_a_file_is_synced_before_it_has_its_name(tmp_path, monkeypatch):
    done = []
    fsync, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd)))
    monkeypatch.setattr(os, "rename", lambda old, new: (done.append("rename"), rename(old, new)))
    wholefile.write(f"{tmp_path}/x", "text")
    assert (tmp_path / "x").read_text() == "text"
    assert done == [f"{tmp_path}/x.new", "rename", f"{tmp_path}"]


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    wholefile.write(f"{tmp_path}/x", "old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        wholefile.write(f"{tmp_path}/x", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["x"] and (tmp_path / "x").read_text() == "old"


@pytest.mark.parametrize("torn", [b"", b"\0" * 37, b"6f1c", b"\xff\xfe"])
def test_a_torn_engine_id_is_made_anew_and_stays_then(tmp_path, torn):
    (tmp_path / "engine-id").write_bytes(torn)
    made = dataroot.engine_id(str(tmp_path))
    assert len(made) == 36
    assert dataroot.engine_id(str(tmp_path)) == made == (tmp_path / "engine-id").read_text().strip()


def test_an_engine_id_is_whole_or_not_there(tmp_path, monkeypatch):
    """Without room for it there is no empty file, which every later daemon would take for its id."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        dataroot.engine_id(str(tmp_path))
    assert list(tmp_path.iterdir()) == []

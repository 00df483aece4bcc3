"""A file is there whole, or is not there; what was there before stays until then."""

import os
import re

import pytest

from engine.daemon import dataroot
from engine.daemon.network.firewall.control import Firewall
from engine.kernel import wholefile
from tests.harness.parts import settings

UUID = "01234567-89ab-4cde-8f01-23456789abcd"


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


@pytest.mark.parametrize("torn", [b"", b"\0" * 37, b"\xff\xfe"])
def test_a_torn_engine_id_is_made_anew_and_stays_then(tmp_path, torn):
    (tmp_path / "engine-id").write_bytes(torn)
    made = dataroot.engine_id(str(tmp_path))
    assert len(made) == 36
    assert dataroot.engine_id(str(tmp_path)) == made == (tmp_path / "engine-id").read_text().strip()


@pytest.mark.parametrize(
    ("kept", "known"),
    [
        ("this-is-the-engine-id", "this-is-the-engine-id"),
        ("spaces and a line\n", "spaces and a line\n"),
        (f"{UUID}\n", UUID),
        (UUID, UUID),
    ],
)
def test_an_engine_id_is_taken_as_the_file_has_it(tmp_path, kept, known):
    (tmp_path / "engine-id").write_text(kept)
    assert dataroot.engine_id(str(tmp_path)) == known
    assert (tmp_path / "engine-id").read_text() == kept
    table = Firewall(known, settings()).table
    assert re.fullmatch("engine-[0-9a-f]{8}", table) and (table == "engine-01234567") == (known == UUID)


def test_an_engine_id_is_whole_or_not_there(tmp_path, monkeypatch):
    """Without room for it there is no empty file, which every later daemon would take for its id."""

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        dataroot.engine_id(str(tmp_path))
    assert list(tmp_path.iterdir()) == []

"""Directories that have nothing to do with each other are put far apart, where the file system can do that."""

import os
import shutil
import subprocess

import pytest

from engine.kernel import placement


@pytest.mark.skipif(shutil.which("lsattr") is None, reason="needs e2fsprogs")
def test_ext4_is_told_once_and_keeps_its_other_flags(tmp_path):
    if subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True).stdout != b"ext2/ext3\n":
        pytest.skip("the tests' directory is on another file system")
    subprocess.run(["chattr", "+A", tmp_path], check=True)
    assert placement.spread(str(tmp_path)) and placement.spread(str(tmp_path))
    shown = subprocess.run(["lsattr", "-d", tmp_path], capture_output=True, text=True, check=True).stdout
    assert {"T", "A"} <= set(shown.partition(" ")[0])


def test_a_file_system_that_cannot_is_left_as_it_is():
    assert not placement.spread("/proc/self/fdinfo")


def test_any_other_error_is_raised(tmp_path):
    with pytest.raises(FileNotFoundError):
        placement.spread(os.fspath(tmp_path / "missing"))

"""The directories of containers are put far apart on the disk, since containers come and go there."""

import shutil
import subprocess
from types import SimpleNamespace

import pytest

from engine.daemon import dataroot


@pytest.mark.skipif(shutil.which("lsattr") is None, reason="needs e2fsprogs")
def test_the_homes_of_containers_are_spread_over_the_disk(tmp_path):
    if subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True).stdout != b"ext2/ext3\n":
        pytest.skip("the tests' directory is on another file system")
    roots = [tmp_path / "data", tmp_path / "exec"]
    dataroot.make(SimpleNamespace(data_root=str(roots[0]), exec_root=str(roots[1])))
    for root in roots:
        shown = subprocess.run(["lsattr", "-d", root / "containers"], capture_output=True, text=True, check=True).stdout
        assert "T" in shown.partition(" ")[0]

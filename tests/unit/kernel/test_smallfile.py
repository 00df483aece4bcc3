"""All of a file is read, whatever its size."""

import os

import pytest

from engine.kernel import smallfile


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 16 * 1024 + 1, 100_000])
def test_all_of_a_file_is_read(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "x").write_bytes(content)
    assert smallfile.read(f"{tmp_path}/x") == content
    with pytest.raises(FileNotFoundError):
        smallfile.read(f"{tmp_path}/missing")

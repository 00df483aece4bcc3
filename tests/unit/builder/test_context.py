"""Tests of the build context: what is opened for it is closed, whatever the Dockerfile turns out to be."""

import io
from pathlib import Path

import pytest

from engine.daemon.builder import context
from engine.errors import SystemFailure
from tests.harness import rootfs
from tests.harness.descriptors import none_left


@pytest.mark.parametrize("name", ["/", ".", "directory", "nothing", "directory/nothing"])
def test_a_dockerfile_that_is_no_file_holds_no_descriptor(tmp_path: Path, name: str) -> None:
    """Python's `fdopen` refuses a directory and leaves its descriptor open; generated requests found it."""
    (tmp_path / "tmp").mkdir()
    archive = rootfs.archive([("directory/file", 0o644, b"FROM scratch\n")])
    with none_left():
        words = "Cannot locate specified" if "nothing" in name else "unexpected error reading"
        with pytest.raises(SystemFailure, match=f"^{words} Dockerfile: "):
            with context.opened(str(tmp_path), io.BytesIO(archive), dockerfile=name):
                pass

"""Images of the host's own programs: what is in the tar, that it is the same each time, and what is refused."""

import io
import os
import shutil
import tarfile

import pytest

from engine.client import hostimage
from engine.errors import Invalid, NotFound


def members(*programs):
    data = b"".join(hostimage.rootfs(programs))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {member.name: member for member in tar}, data


def resolved(found, path):
    """The member that a path leads to inside the archive."""
    parts, here = path.strip("/").split("/"), ""
    while parts:
        here = f"{here}/{parts.pop(0)}".lstrip("/")
        member = found[here]
        if member.issym():
            base = "" if member.linkname.startswith("/") else os.path.dirname(here)
            parts = os.path.normpath(f"{base}/{member.linkname}").strip("/").split("/") + parts
            here = ""
    return found[here]


def test_a_program_comes_with_its_loader_libraries_and_the_links_to_them():
    found, _ = members("sh", "cat")
    assert resolved(found, "/bin/sh").isreg()
    assert resolved(found, shutil.which("cat")).mode & 0o111
    assert any("libc" in name for name in found)
    assert {member.uid for member in found.values()} == {0}


def test_every_parent_stands_before_its_child():
    found, _ = members("sh")
    seen = set()
    for name, member in found.items():
        above = os.path.dirname(name)
        assert not above or above in seen
        if member.isdir():
            seen.add(name)


def test_busybox_brings_its_applets():
    if shutil.which("busybox") is None:
        pytest.skip("needs busybox")
    found, _ = members("busybox")
    for applet in ("sh", "echo", "cat", "sleep"):
        assert os.path.basename(resolved(found, f"/bin/{applet}").name) == "busybox"


def test_the_tar_is_the_same_each_time():
    assert members("cat")[1] == members("cat")[1]


def test_a_script_brings_its_interpreter(tmp_path):
    script = tmp_path / "hello"
    script.write_text("#!/bin/sh -e\necho hello\n")
    script.chmod(0o755)
    found, _ = members(str(script))
    assert str(script)[1:] in found
    assert resolved(found, "/bin/sh").isreg()


def test_what_cannot_be_is_refused_before_the_first_byte(tmp_path):
    with pytest.raises(NotFound, match="no-such-program was not found on this host"):
        hostimage.rootfs(["no-such-program"])
    data = tmp_path / "data"
    data.write_text("neither")
    data.chmod(0o755)
    with pytest.raises(Invalid, match="neither an ELF program nor a script"):
        hostimage.rootfs([str(data)])

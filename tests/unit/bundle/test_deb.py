"""The Debian package: what dpkg and tar read of it, and that it is the same each time."""

import io
import lzma
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from engine.bundle import deb, furnishing, main
from engine.client import completion
from engine.errors import Invalid

ENTRIES = {
    "usr/bin/engine": deb.Entry(b"#!/bin/sh\necho there\n", 0o755),
    "usr/bin/engined": deb.Entry(link="engine"),
    "usr/share/odd": deb.Entry(b"odd"),
}
TIME = 1_700_000_000


def members(package: bytes) -> dict[str, bytes]:
    """The members of an ar archive."""
    assert package.startswith(b"!<arch>\n")
    found, place = {}, 8
    while place < len(package):
        head = package[place : place + 60]
        assert head.endswith(b"`\n"), head
        size = int(head[48:58])
        found[head[:16].decode().strip()] = package[place + 60 : place + 60 + size]
        place += 60 + size + size % 2
    return found


def test_it_is_the_same_each_time_and_has_its_parts() -> None:
    package = deb.package("1.2", ENTRIES, TIME)
    assert package == deb.package("1.2", dict(reversed(ENTRIES.items())), TIME)
    assert list(members(package)) == ["debian-binary", "control.tar.xz", "data.tar.xz"]


def test_every_file_is_roots_and_of_one_time() -> None:
    data = lzma.decompress(members(deb.package("1.2", ENTRIES, TIME))["data.tar.xz"])
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        listed = archive.getmembers()
        assert [each.name for each in listed] == [
            *(".", "./usr", "./usr/bin", "./usr/bin/engine", "./usr/bin/engined", "./usr/share", "./usr/share/odd")
        ]
        assert {(each.uid, each.gid, each.uname, each.gname, each.mtime) for each in listed} == {
            (0, 0, "root", "root", TIME)
        }
        assert archive.getmember("./usr/bin/engine").mode == 0o755
        assert archive.getmember("./usr/bin/engined").linkname == "engine"


def test_dpkg_reads_it(tmp_path: Path) -> None:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("there is no dpkg-deb")
    (tmp_path / "a.deb").write_bytes(deb.package("1.2", ENTRIES, TIME))
    done = subprocess.run(["dpkg-deb", "-f", tmp_path / "a.deb"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Package: engine\nVersion: 1.2\nArchitecture: all\n" in done.stdout
    subprocess.run(["dpkg-deb", "-x", tmp_path / "a.deb", tmp_path / "x"], check=True)
    assert subprocess.run([tmp_path / "x/usr/bin/engined"], capture_output=True).stdout == b"there\n"


@pytest.mark.parametrize("script", sorted(deb._SCRIPTS))
def test_its_scripts_are_shell(script: str) -> None:
    done = subprocess.run(["sh", "-n"], input=deb._SCRIPTS[script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_time_is_the_builders() -> None:
    assert main._moment({"SOURCE_DATE_EPOCH": "1700000000"}) == TIME
    assert main._moment({}) == deb.OLDEST
    for text in ("", "-1", "1e9", "9" * 12, "\u0661"):
        with pytest.raises(Invalid):
            main._moment({"SOURCE_DATE_EPOCH": text})


def test_every_shell_finds_its_completion_where_it_looks() -> None:
    found = furnishing.entries(b"", "", TIME)
    for shell, place in (
        ("bash", "usr/share/bash-completion/completions/engine"),
        ("zsh", "usr/share/zsh/vendor-completions/_engine"),
        ("fish", "usr/share/fish/vendor_completions.d/engine.fish"),
    ):
        assert found[place].data.decode() == completion.SCRIPTS[shell]

"""Unpacking what a container gives: everything stays beneath the directory."""

import io
import os
import stat
import tarfile

import pytest

from engine.client.container.taking import Pieces, unpack
from engine.client.tarstream import pieces, walked
from engine.errors import Invalid


def archive(*members):
    """A tar of (name, kind, content or target) rows."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.mtime = kind, 1000
            member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o4640
            if kind == tarfile.REGTYPE:
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
            else:
                member.linkname = content
                tar.addfile(member)
    data = out.getvalue()
    return Pieces(data[at : at + 700] for at in range(0, len(data), 700))


def file(name, content=b"x"):
    return name, tarfile.REGTYPE, content


def directory(name):
    return name, tarfile.DIRTYPE, ""


def link(name, target):
    return name, tarfile.SYMTYPE, target


def test_a_tree_gets_its_new_name_modes_and_times(tmp_path):
    unpack(archive(directory("d/"), file("d/f", b"hello"), link("d/l", "f")), str(tmp_path), "new")
    made = tmp_path / "new" / "f"
    assert made.read_bytes() == b"hello"
    assert stat.S_IMODE(made.stat().st_mode) == 0o640  # and not setuid
    assert made.stat().st_mtime == (tmp_path / "new").stat().st_mtime == 1000
    assert os.readlink(tmp_path / "new" / "l") == "f"


def test_contents_alone_go_into_the_directory(tmp_path):
    unpack(archive(directory("d/"), file("d/f")), str(tmp_path), "")
    unpack(archive(directory("./"), file("./g")), str(tmp_path), "")
    assert sorted(os.listdir(tmp_path)) == ["f", "g"]


def test_a_file_takes_the_place_of_a_file(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("safe")
    inside = tmp_path / "in"
    inside.mkdir()
    (inside / "f").symlink_to(outside)
    unpack(archive(file("x", b"new")), str(inside), "f")
    assert (outside.read_text(), (inside / "f").read_bytes()) == ("safe", b"new")


@pytest.mark.parametrize(
    "members",
    [
        [file("d/../../f")],
        [directory("../d")],
        [directory("d"), ("d/h", tarfile.LNKTYPE, "d/../../../secret")],
        [file("d"), directory("d/")],
        [directory("d"), file("d")],
    ],
)
def test_what_would_go_elsewhere_or_change_its_kind_is_refused(tmp_path, members):
    inside = tmp_path / "in"
    inside.mkdir()
    with pytest.raises(Invalid):
        unpack(archive(*members), str(inside), "new")
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("target", ["..", "../..", "/", "{outside}"])
def test_links_lead_nowhere_but_into_the_directory(tmp_path, target):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    target = target.format(outside=outside)
    members = [directory("d"), link("d/l", target), file("d/l/planted"), directory("d/l/made"), file("d/l/made/f")]
    try:
        unpack(archive(*members), str(inside), "new")
    except (Invalid, OSError):
        pass
    assert os.listdir(outside) == []
    assert sorted(os.listdir(tmp_path)) == ["in", "out"]
    assert not os.path.lexists("/planted")


def test_a_hard_link_is_one_within_the_copy(tmp_path):
    unpack(archive(directory("d"), file("d/f"), ("d/h", tarfile.LNKTYPE, "d/f")), str(tmp_path), "new")
    assert (tmp_path / "new" / "h").stat().st_nlink == 2


def test_a_device_is_left_out_and_said(tmp_path, capsys):
    unpack(archive(directory("d"), ("d/null", tarfile.CHRTYPE, "")), str(tmp_path), "new")
    assert os.listdir(tmp_path / "new") == []
    assert "d/null is a device" in capsys.readouterr().err


def test_an_archive_that_is_cut_short_is_an_error(tmp_path):
    data = b"".join(pieces([("f", __file__)]))
    with pytest.raises(Invalid, match="no whole archive"):
        unpack(Pieces([data[:700]]), str(tmp_path), "f")


def test_what_is_packed_is_unpacked(tmp_path):
    source = tmp_path / "s"
    (source / "a" / "b").mkdir(parents=True)
    (source / "a" / "f").write_bytes(bytes(300_000))
    (source / "l").symlink_to("a/f")
    (source / "a" / "b" / ("n" * 200)).write_text("long")
    os.mkfifo(source / "p")
    unpack(Pieces(pieces(walked(str(source), "x"))), str(tmp_path), "copy")
    copy = tmp_path / "copy"
    assert (copy / "a" / "f").read_bytes() == bytes(300_000)
    assert (copy / "a" / "b" / ("n" * 200)).read_text() == "long"
    assert os.readlink(copy / "l") == "a/f"
    assert stat.S_ISFIFO((copy / "p").stat().st_mode)

"""Tar streams as the engine writes them, read again by Python's own module and by the engine's."""

import io
import os
import socket
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.tar import reader as tar
from engine.daemon.tar import trees
from engine.daemon.tar import writer as tarwriter
from engine.daemon.tar.writer import END, Packer, header, open_file
from tests.harness.descriptors import open_below

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


def stat_of(
    mode: int = stat.S_IFREG | 0o644, size: int = 0, mtime: float = 0, uid: int = 0, gid: int = 0
) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, gid, size, mtime, mtime, mtime))


def read(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data + END)) as archive:
        return archive.getmembers()


def joined(chunks: Iterator) -> bytes:
    """A chunk lasts until the next one."""
    return b"".join([bytes(chunk) for chunk in chunks])


def packed(place: Path, **options: object) -> bytes:
    fd = os.open(place, DIRECTORY)
    try:
        packer = Packer(**options)
        return joined(packer.tree(fd, "top/", "top/")) + packer.end()
    finally:
        os.close(fd)


@pytest.mark.parametrize("length", [1, 99, 100, 101, 155, 256, 257, 1000, 4000])
def test_names_and_links_of_any_length(length: int) -> None:
    name, link = b"n" * length, b"l" * length
    (info,) = read(header(name, stat_of(stat.S_IFLNK | 0o777), link))
    assert (info.name, info.linkname) == (name.decode(), link.decode())


def test_a_directory_has_a_slash_at_its_end() -> None:
    """Whoever packs it."""
    for name in (b"d", b"d/"):
        assert header(name, stat_of(stat.S_IFDIR | 0o755))[:3] == b"d/\0"


@pytest.mark.parametrize(
    ("name", "first", "field", "prefix"),
    [
        # As Go writes them: a name is divided at its last slash where both halves fit, and else has a record.
        (b"a/" + b"b" * 99, b"0", b"b" * 99, b"a"),
        (b"a" * 150 + b"/" + b"b" * 100, b"0", b"b" * 100, b"a" * 150),
        (b"a" * 150 + b"/" + b"b" * 101, b"x", (b"a" * 150)[:100], b""),
        (b"a" * 156 + b"/" + b"b", b"x", (b"a" * 156)[:100], b""),
        ("d/é".encode(), b"x", b"d/PaxHeaders.0", b""),
        (b"e/" + "é".encode() + b"f", b"x", b"e/PaxHeaders.0/f", b""),
    ],
)
def test_a_name_is_told_as_go_tells_it(name: bytes, first: bytes, field: bytes, prefix: bytes) -> None:
    made = header(name, stat_of())
    assert (made[156:157], made[:100].rstrip(b"\0"), made[345:500].rstrip(b"\0")) == (first, field, prefix)
    if first == b"x":
        assert (made[100:108], made[329:345]) == (b"0000000\0", bytes(16))
    (info,) = read(made)
    assert info.name.encode() == name


def test_of_a_number_that_is_too_large_the_record_alone_tells() -> None:
    made = header(b"x", stat_of(uid=8**7, mtime=-1))
    assert (made[-512 + 108 : -512 + 116], made[-512 + 136 : -512 + 148]) == (b"0000000\0", b"00000000000\0")
    assert (b" uid=2097152\n" in made, b" mtime=-1\n" in made, b" gid=" in made) == (True, True, False)


@pytest.mark.parametrize(
    ("size", "uid", "gid", "mtime"),
    [(0, 0, 0, 0), (8**11 - 1, 8**7 - 1, 8**7 - 1, 2**31), (8**11, 8**7, 2**32 - 2, 8**11), (5, 1, 2, -1)],
)
def test_numbers_of_any_size(size: int, uid: int, gid: int, mtime: int) -> None:
    entry = next(iter(tar.TarReader(io.BytesIO(header(b"x", stat_of(size=size, mtime=mtime, uid=uid, gid=gid))))))
    assert (entry.size, entry.uid, entry.gid, entry.mtime_ns) == (size, uid, gid, mtime * 10**9)


@pytest.mark.parametrize("mode", [stat.S_IFREG | 0o4755, stat.S_IFDIR | 0o1777, stat.S_IFLNK | 0o777])
def test_a_mode_has_permission_bits_alone(mode: int) -> None:
    """As docker writes it; the kind of file has a field of its own."""
    (info,) = read(header(b"x", stat_of(mode)))
    assert info.mode == stat.S_IMODE(mode)


@pytest.mark.parametrize("length", [*range(80, 100), 975, 9960])
def test_a_record_counts_its_own_digits(length: int) -> None:
    value = b"v" * length
    (info,) = read(header(b"x", stat_of(), attributes={"user.a": value}))
    assert info.pax_headers["SCHILY.xattr.user.a"].encode() == value


def test_the_checksum_is_right_for_any_bytes() -> None:
    for byte in (1, 127, 128, 255):
        (info,) = read(header(bytes([byte]) * 100, stat_of(stat.S_IFLNK), bytes([byte]) * 100))
        assert os.fsencode(info.name) == bytes([byte]) * 100


def test_every_kind_of_file_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"b" * 1000)
    (tmp_path / "a").mkdir(mode=0o751)
    (tmp_path / "a" / "z").write_text("z")
    os.link(tmp_path / "b", tmp_path / "hard")
    (tmp_path / "link").symlink_to("b")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path))) as archive:
        found = {info.name: (info.type, info.linkname) for info in archive}
        assert archive.extractfile("top/b").read() == b"b" * 1000
        assert archive.getmember("top/a").mode & 0o7777 == 0o751
    assert found == {
        "top": (tarfile.DIRTYPE, ""),
        "top/a": (tarfile.DIRTYPE, ""),
        "top/a/z": (tarfile.REGTYPE, ""),
        "top/b": (tarfile.REGTYPE, ""),
        "top/hard": (tarfile.LNKTYPE, "top/b"),
        "top/link": (tarfile.SYMTYPE, "b"),
        "top/pipe": (tarfile.FIFOTYPE, ""),
    }
    assert list(found) == sorted(found)


def test_a_name_that_is_no_text_survives(tmp_path: Path) -> None:
    name = b"\xff\xfe caf\xc3\xa9"
    open(os.path.join(os.fsencode(tmp_path), name), "w").close()
    (_, entry) = iter(tar.TarReader(io.BytesIO(packed(tmp_path))))
    assert os.fsencode(entry.name) == b"top/" + name


def test_large_files_come_in_pieces_and_sparse_ones_as_zeros(tmp_path: Path) -> None:
    with open(tmp_path / "large", "wb") as file:
        file.write(b"start")
        file.seek(5_000_001)
        file.write(b"end")
    fd = os.open(tmp_path, DIRECTORY)
    packer = Packer()
    chunks = [bytes(chunk) for chunk in packer.one(fd, "large", "large")] + [packer.end()]
    os.close(fd)
    assert max(map(len, chunks)) <= 1 << 20
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
        assert archive.extractfile("large").read() == b"start" + bytes(4_999_996) + b"end"


def test_a_file_that_becomes_shorter_is_filled_up(tmp_path: Path) -> None:
    (tmp_path / "shrinks").write_bytes(b"x" * 3_000_000)
    (tmp_path / "then").write_text("after")
    fd = os.open(tmp_path, DIRECTORY)
    packer = Packer()
    chunks = packer.tree(fd, "./", "./")
    data = bytes(next(chunks))
    os.truncate(tmp_path / "shrinks", 10)
    data += joined(chunks) + packer.end()
    os.close(fd)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getmember("./shrinks").size == 3_000_000
        assert archive.extractfile("./then").read() == b"after"


def test_a_tree_deeper_than_descriptors_go_is_packed_as_far_as_a_path_is_long(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    here = os.open(tmp_path / "deep", DIRECTORY)
    for _ in range(1500):
        os.mkdir("ddd", dir_fd=here)
        deeper = os.open("ddd", DIRECTORY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    (tmp_path / "z").touch()
    try:
        names = [entry.name for entry in tar.TarReader(io.BytesIO(packed(tmp_path)))]
        assert open_below(tmp_path) == 0
        assert names[-1] == "top/z" and len(names) > 1000
    finally:
        trees.remove_path(str(tmp_path / "deep"))  # what cleans up after pytest is not made for it


def test_a_closed_device_is_named_and_not_entered(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").touch()
    device = os.stat(tmp_path).st_dev
    names = [entry.name for entry in tar.TarReader(io.BytesIO(packed(tmp_path, closed={device})))]
    assert names == ["top/", "top/in/"]


def test_what_is_no_file_any_more_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    fd = os.open(tmp_path, DIRECTORY)
    for name in ("pipe", "link"):
        with pytest.raises(FileNotFoundError):
            open_file(fd, name)
    os.close(fd)


def test_a_disk_that_fails_ends_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("x")

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(tarwriter, "open_file", fail)
    with pytest.raises(OSError, match="Input/output"):
        packed(tmp_path)

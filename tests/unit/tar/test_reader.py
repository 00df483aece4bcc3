"""The tar reader against tarfile as the writer, against sparse files of GNU tar's formats, and against anything."""

import io
import os
import shutil
import subprocess
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.daemon.tar import reader as tar
from engine.errors import Invalid
from tests.unit.images.made import archive, directory, link, member, symlink


def entries(data: bytes) -> list[tuple[tar.Entry, bytes]]:
    """Every entry with what is stored of it."""
    reader = tar.TarReader(io.BufferedReader(io.BytesIO(data)))
    return [(entry, b"".join(reader.chunks())) for entry in reader]


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_field_comes_back_in_each_format(form):
    long_name = "d/" * 60 + "x" * (90 if form == tarfile.USTAR_FORMAT else 900)
    data = archive(
        directory("d/", 0o1777),
        member("d/file", b"contents", uid=1234, gid=5678, mode=0o4755, mtime=1_700_000_000),
        symlink("d/sym", "../target"),
        link("d/hard", "d/file"),
        member("d/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("d/disk", type=tarfile.BLKTYPE, devmajor=8, devminor=1),
        member("d/pipe", type=tarfile.FIFOTYPE),
        member(long_name, b"z"),
        form=form,
    )
    found = entries(data)
    assert [entry.kind for entry, _ in found] == [b"5", b"0", b"2", b"1", b"3", b"4", b"6", b"0"]
    file, contents = found[1]
    assert (file.name, contents, file.uid, file.gid, file.mode) == ("d/file", b"contents", 1234, 5678, 0o4755)
    assert file.mtime_ns == 1_700_000_000 * 10**9
    assert found[2][0].link == "../target"
    assert (found[4][0].major, found[4][0].minor) == (1, 3)
    assert found[7][0].name == long_name


def test_pax_records_give_large_ids_fractions_of_seconds_and_attributes():
    records = {"mtime": "1700000000.123456789", "SCHILY.xattr.user.a": "b=c", "uid": "4000000000"}
    ((entry, _),) = entries(archive(member("x", b"1", pax_headers=records)))
    assert entry.mtime_ns == 1_700_000_000_123_456_789
    assert (entry.attributes, entry.uid) == ({"user.a": b"b=c"}, 4_000_000_000)


def test_numbers_in_base_256_are_read():
    ((entry, _),) = entries(archive(member("x", uid=3_000_000, gid=2**40), form=tarfile.GNU_FORMAT))
    assert (entry.uid, entry.gid) == (3_000_000, 2**40)


def test_names_that_are_no_utf8_come_back_as_the_bytes_they_were():
    ((entry, _),) = entries(archive(member(os.fsdecode(b"\xff\xfe"), b""), form=tarfile.GNU_FORMAT))
    assert os.fsencode(entry.name) == b"\xff\xfe"


@pytest.mark.parametrize(
    "form",
    [
        ["--format=gnu"],
        ["--format=pax", "--sparse-version=1.0"],
        ["--format=pax", "--sparse-version=0.1"],
        ["--format=pax", "--sparse-version=0.0"],
    ],
)
def test_sparse_files_of_gnu_tar_come_back_with_their_holes(tmp_path, form):
    if shutil.which("tar") is None:
        pytest.skip("needs GNU tar")
    size = 30 * 65536 + 5
    with open(tmp_path / "sparse", "wb") as file:
        for number in range(30):
            file.seek(number * 65536)
            file.write(b"%d" % number)
        file.truncate(size)
    data = subprocess.run(["tar", "-C", tmp_path, *form, "-S", "-cf", "-", "sparse"], capture_output=True, check=True)
    ((entry, stored),) = entries(data.stdout)
    whole = bytearray(entry.size)
    for offset, length in entry.fragments:
        whole[offset : offset + length], stored = stored[:length], stored[length:]
    assert (entry.name, bytes(whole)) == ("sparse", (tmp_path / "sparse").read_bytes())


def test_an_archive_without_its_last_blocks_ends_where_it_ends():
    data = archive(member("x", b"1"))
    assert len(entries(data[:1024])) == 1
    # Not even the last file is filled up to a block by the docker CLI, when it has put a Dockerfile into a context.
    assert len(entries(data[:513])) == 1


@pytest.mark.parametrize("data", [b"garbage", archive(member("x", b"1" * 600))[:1000], b"\1" * 512, b"\1" * 2048])
def test_what_is_no_tar_is_refused(data):
    with pytest.raises(Invalid):
        entries(data)


def test_an_extension_header_of_gigabytes_is_refused_before_it_is_read():
    header = bytearray(archive(member("x", b""))[:512])
    header[124:136] = b"77777777777\0"
    header[156:157] = b"x"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(Invalid, match="too long"):
        entries(bytes(header))


@pytest.mark.parametrize("key", ["path", "linkpath", "SCHILY.xattr.user.a\0b"])
def test_a_nul_in_a_pax_record_is_refused(key):
    with pytest.raises(Invalid):
        entries(archive(member("x", pax_headers={key: "a\0b"})))


@pytest.mark.parametrize(
    "records", [b"6 a=b\nx", b"6 a=b\n0 c=d\n", b" a=b\n", b"999 a=b\n", b"6 a-b\n", b"3 \n", b"2\n"]
)
def test_pax_records_of_a_wrong_length_are_refused_and_end(records):
    header = bytearray(archive(member("x", records))[:512])
    header[156:157] = b"x"
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(Invalid):
        entries(bytes(header) + records.ljust(512, b"\0") + archive(member("y", b"")))


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_archive_is_read_or_refused_and_nothing_else(data):
    whole = bytearray(archive(member("d/x" * 40, b"1" * 700, pax_headers={"comment": "c"}), symlink("s", "t")))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        entries(bytes(whole))
    except Invalid:
        pass


@given(st.binary(max_size=2000))
def test_any_bytes_are_read_or_refused(data):
    try:
        entries(data)
    except Invalid:
        pass


@pytest.mark.parametrize("rest", [bytes(5 << 20), b"\1" * 1000, bytes(600_000) + b"\1" + bytes(5 << 20)])
def test_an_archive_may_be_followed_by_any_number_of_zeros(rest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """And by a bounded number of pieces with anything else."""
    monkeypatch.setattr(tar, "_MOST_TRAILING", 1 << 20)
    tar.read_rest(io.BytesIO(rest), "it")
    with pytest.raises(Invalid, match=r"^it has data after the end of its archive"):
        tar.read_rest(io.BytesIO(rest + b"junk" * (1 << 20)), "it")

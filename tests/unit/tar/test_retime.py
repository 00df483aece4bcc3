"""Times that are set back in a tar: by any writer's headers, with all else as it was."""

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.tar.retime import Retimed
from engine.errors import Invalid

EPOCH = 1_500_000_000
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def archive(times: list[float], form: int, **more: str) -> bytes:
    """An archive of files, one for each time, of names and sizes that need long headers too."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as writing:
        for number, time in enumerate(times):
            long = "" if form == tarfile.USTAR_FORMAT else "x" * 150
            member = tarfile.TarInfo(f"{number}{long}")
            member.mtime, member.size, member.mode = time, number * 700, 0o640
            if form == tarfile.PAX_FORMAT:
                member.pax_headers = dict(more)
            writing.addfile(member, io.BytesIO(bytes(number * 700)))
    return made.getvalue()


def rewritten(data: bytes, seconds: int = EPOCH) -> bytes:
    return io.BufferedReader(Retimed(io.BytesIO(data), seconds)).read()


@pytest.mark.parametrize("form", FORMATS)
def test_no_member_is_younger(form: int) -> None:
    data = archive([EPOCH - 5, EPOCH, EPOCH + 1, 1.9e9], form)
    with tarfile.open(fileobj=io.BytesIO(rewritten(data))) as found:
        members = list(found)
        assert [int(member.mtime) for member in members] == [EPOCH - 5, EPOCH, EPOCH, EPOCH]
        assert [member.size for member in members] == [0, 700, 1400, 2100]
        assert {member.mode for member in members} == {0o640}
        assert found.extractfile(members[2]).read() == bytes(1400)


def test_the_times_of_pax_too() -> None:
    data = archive(
        [EPOCH + 0.5], tarfile.PAX_FORMAT, atime=f"{EPOCH + 9}.25", ctime=str(EPOCH - 9), comment="1999999999"
    )
    with tarfile.open(fileobj=io.BytesIO(rewritten(data))) as found:
        (member,) = found
        told = member.pax_headers
        assert member.mtime == EPOCH
        assert (told["atime"], told["ctime"], told["comment"]) == (str(EPOCH), str(EPOCH - 9), "1999999999")


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_old_enough_stays_byte_by_byte(form: int) -> None:
    data = archive([5, 6, 7], form)
    assert rewritten(data) == data


def test_twice_is_once() -> None:
    once = rewritten(archive([2e9, 1e9], tarfile.PAX_FORMAT, atime="1999999999.123"))
    assert rewritten(once) == once


@given(st.binary(max_size=4096))
def test_any_bytes_end_in_words(data: bytes) -> None:
    try:
        assert len(rewritten(data)) <= len(data) + 1024
    except Invalid:
        pass


@given(st.integers(0, 3000), st.integers(0, 255))
def test_a_damaged_header_ends_in_words(place: int, byte: int) -> None:
    data = bytearray(archive([2e9, 1e9], tarfile.PAX_FORMAT, atime="1999999999.5"))
    data[place] = byte
    try:
        rewritten(bytes(data))
    except Invalid:
        pass

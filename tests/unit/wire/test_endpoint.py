"""The monitor's socket: found through a path of any length, and refused when nobody listens."""

import os

import pytest

from engine.wire import endpoint, exitfile


def test_a_socket_below_a_very_long_path_is_found(tmp_path):
    place = tmp_path / ("x" * 100) / ("y" * 100)
    place.mkdir(parents=True)
    with endpoint.listen(str(place)) as listener, endpoint.connect(str(place)) as client:
        server, _ = listener.accept()
        with server:
            client.send(b"hello")
            assert server.recv(10) == b"hello"


def test_nothing_there_and_nobody_listening_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError):
        endpoint.connect(str(tmp_path))
    endpoint.listen(str(tmp_path)).close()
    with pytest.raises(ConnectionRefusedError):
        endpoint.connect(str(tmp_path))


def test_an_exit_file_takes_the_space_that_was_reserved(tmp_path):
    exitfile.reserve(str(tmp_path))
    (reserved,) = tmp_path.iterdir()
    was = reserved.stat()
    assert was.st_blocks > 0 and exitfile.read(str(tmp_path)) is None
    exitfile.write(str(tmp_path), b"the end")
    assert exitfile.read(str(tmp_path)) == b"the end"
    assert (tmp_path / exitfile.EXIT).stat().st_ino == was.st_ino
    assert [each.name for each in tmp_path.iterdir()] == [exitfile.EXIT]


@pytest.mark.parametrize("reserved", [False, True])
def test_a_crash_says_what_was_raised_and_where_in_a_page_at_most(tmp_path, reserved):
    if reserved:
        exitfile.reserve(str(tmp_path))
    try:
        try:
            raise ValueError("x" * 5000)
        except ValueError:
            os.stat(tmp_path / "nothing")
    except FileNotFoundError:
        exitfile.write_crash(str(tmp_path))
    text = (tmp_path / exitfile.CRASH).read_text()
    assert len(text) == 4096 and "x\nduring the handling of that:\n" in text and "FileNotFoundError: [Errno 2] " in text
    assert f"{__file__}:" in text and " in test_a_crash_says" in text
    assert [each.name for each in tmp_path.iterdir()] == [exitfile.CRASH]


def test_a_crash_that_cannot_be_left_is_no_second_one(tmp_path):
    try:
        raise ValueError
    except ValueError:
        exitfile.write_crash(str(tmp_path / "nothing"))
    assert list(tmp_path.iterdir()) == []


def test_an_exit_file_is_read_as_it_was_written(tmp_path):
    assert exitfile.read(str(tmp_path)) is None
    exitfile.write(str(tmp_path), b"first")
    exitfile.write(str(tmp_path), b"second")
    assert exitfile.read(str(tmp_path)) == b"second"
    assert [each.name for each in tmp_path.iterdir()] == [exitfile.EXIT]

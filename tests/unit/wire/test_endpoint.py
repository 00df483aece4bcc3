"""The monitor's socket: found through a path of any length, and refused when nobody listens."""

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


def test_an_exit_file_is_read_as_it_was_written(tmp_path):
    assert exitfile.read(str(tmp_path)) is None
    exitfile.write(str(tmp_path), b"first")
    exitfile.write(str(tmp_path), b"second")
    assert exitfile.read(str(tmp_path)) == b"second"
    assert [each.name for each in tmp_path.iterdir()] == [exitfile.EXIT]

"""The stream that a commit's layer is read from."""

from engine.daemon.containers.contents.commit import Stream


def test_a_stream_gives_its_chunks_one_by_one() -> None:
    stream = Stream(iter((b"abc", b"", memoryview(b"de"))))
    assert [stream.read(2) for _ in range(4)] == [b"ab", b"c", b"de", b""]


def test_a_stream_gives_all_that_is_left() -> None:
    stream = Stream(iter((b"abc", memoryview(b"de"))))
    assert (stream.read(1), stream.read(), stream.read()) == (b"a", b"bcde", b"")


def test_a_stream_fills_a_buffer() -> None:
    stream, room = Stream(iter((b"abc",))), bytearray(2)
    assert (stream.readinto(room), bytes(room)) == (2, b"ab")

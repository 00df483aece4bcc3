"""The Config of a commit's image, and the stream that its layer is read from."""

import pytest

from engine.daemon.containers.contents.commit import AskedCommit, settings
from engine.daemon.tar.chunkstream import Stream
from tests.harness import parts


@pytest.mark.parametrize("line", ["ENTRYPOINT []", "ENTRYPOINT"])
def test_an_entrypoint_that_is_emptied_leaves_the_container_s_own(line: str) -> None:
    own = {"Entrypoint": ["/entry"], "Cmd": ["word"]}
    made = settings(parts.container(own), AskedCommit(changes=(line,)))
    assert (made["Entrypoint"], made["Cmd"]) == (["/entry"], ["word"])


def test_an_entrypoint_takes_the_place_of_the_container_s_command() -> None:
    made = settings(parts.container({"Cmd": ["word"]}), AskedCommit(changes=("ENTRYPOINT /entry",)))
    assert (made["Entrypoint"], made["Cmd"]) == (["/bin/sh", "-c", "/entry"], None)


def test_a_stream_gives_its_chunks_one_by_one() -> None:
    stream = Stream(iter((b"abc", b"", memoryview(b"de"))))
    assert [stream.read(2) for _ in range(4)] == [b"ab", b"c", b"de", b""]


def test_a_stream_gives_all_that_is_left() -> None:
    stream = Stream(iter((b"abc", memoryview(b"de"))))
    assert (stream.read(1), stream.read(), stream.read()) == (b"a", b"bcde", b"")


def test_a_stream_fills_a_buffer() -> None:
    stream, room = Stream(iter((b"abc",))), bytearray(2)
    assert (stream.readinto(room), bytes(room)) == (2, b"ab")

"""The Config of a commit's image, and the stream that its layer is read from."""

import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.daemon.containers.contents import commit
from engine.daemon.containers.contents.changes import ADDED, DELETED, Change
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


def test_what_a_program_swaps_meanwhile_is_packed_so_that_it_can_be_unpacked(tmp_path: Path) -> None:
    """Each directory is listed with a file and a deleted one in it, and then becomes something else, or goes."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in" / "file").write_text(name)
    paths = [f"/{name}{below}" for name in ("a", "b", "c", "d") for below in ("", "/in", "/in/file", "/in/gone")]
    found = iter([Change(path, DELETED if path.endswith("gone") else ADDED) for path in paths])
    top = os.open(tmp_path, os.O_RDONLY)

    def packed() -> Iterator[bytes]:
        made = commit._packed(top, next(found), watched())
        yield from (bytes(chunk) for chunk in made)

    def watched() -> Iterator[Change]:
        for change in found:
            if change.path == "/a/in":  # before it is packed, as a directory above
                (tmp_path / "a/in").rename(tmp_path / "a/moved")
                (tmp_path / "a/in").symlink_to("moved")
            if change.path == "/b/in/file":  # after it was packed
                (tmp_path / "b/in").rename(tmp_path / "b/moved")
                (tmp_path / "b/in").symlink_to("moved")
            if change.path == "/c/in/file":
                shutil.rmtree(tmp_path / "c")
            yield change

    try:
        data = b"".join(packed())
    finally:
        os.close(top)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert archive.getnames() == ["a", "a/in", "b", "b/in", "c", "c/in", "d", "d/in", "d/in/file", "d/in/.wh.gone"]
        whiteout = archive.getmember("d/in/.wh.gone")
        assert (whiteout.mode, whiteout.mtime, whiteout.size) == (0, 0, 0)  # as containerd writes it
        assert archive.getmember("a/in").issym() and archive.getmember("b/in").isdir()

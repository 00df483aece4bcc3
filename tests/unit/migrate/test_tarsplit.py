"""The tar of a layer, put together again from its pieces and its files."""

import base64
import gzip
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.migrate.tarsplit import Tar


def piece(data: bytes) -> dict:
    """A piece of the tar itself."""
    return {"type": 2, "payload": base64.b64encode(data).decode(), "position": 0}


@pytest.fixture
def layer(tmp_path: Path) -> Iterator[int]:
    """A layer's directory with the file d/f, and a link that leads out of it."""
    (tmp_path / "layer/d").mkdir(parents=True)
    (tmp_path / "layer/d/f").write_bytes(b"contents")
    (tmp_path / "layer/out").symlink_to(tmp_path)
    (tmp_path / "secret").write_bytes(b"secretly")
    os.mkfifo(tmp_path / "layer/fifo")
    descriptor = os.open(tmp_path / "layer", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def whole(tmp_path: Path, layer: int, *entries: dict) -> bytes:
    """What comes of these entries."""
    path = tmp_path / "pieces.gz"
    path.write_bytes(gzip.compress(b"".join(json.dumps(each).encode() + b"\n" for each in entries)))
    with open(path, "rb", buffering=0) as file:
        return io.BufferedReader(_Readable(Tar(file, layer))).read()


class _Readable(io.RawIOBase):
    """A stream of the reads of another, in small parts."""

    def __init__(self, source: Tar) -> None:
        self._source = source

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: bytearray) -> int:
        """A few bytes."""
        data = self._source.read(min(len(buffer), 5))
        buffer[: len(data)] = data
        return len(data)


def test_pieces_and_files_come_in_their_order(tmp_path: Path, layer: int) -> None:
    raw = base64.b64encode(b"d/f").decode()
    entries = (
        piece(b"head"),
        {"type": 1, "name": "./d/f", "size": 8, "payload": "AAAA", "position": 1},
        piece(b"more"),
        {"type": 1, "name": "d", "payload": None},
        {"type": 1, "name_raw": raw, "size": 8},
        piece(b""),
    )
    assert whole(tmp_path, layer, *entries) == b"headcontentsmorecontents"


@pytest.mark.parametrize(
    "entry",
    [
        {"type": 1, "name": "nothing", "size": 8},
        {"type": 1, "name": "d/f", "size": 7},
        {"type": 1, "name": "d", "size": 8},
        {"type": 1, "name": "fifo", "size": 8},
        {"type": 1, "name": "out/secret", "size": 8},
        {"type": 1, "name": "../secret", "size": 8},
        {"type": 1, "name": "d/f", "size": -1},
        {"type": 1, "name": "d/f", "size": "8"},
        {"type": 1, "size": 8},
        {"type": 1, "name": "d\0f", "size": 8},
        {"type": 2, "payload": "???"},
        {"type": 3},
        {},
    ],
    ids=lambda entry: json.dumps(entry)[:40],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, layer: int, entry: dict) -> None:
    with pytest.raises(Invalid):
        whole(tmp_path, layer, entry)

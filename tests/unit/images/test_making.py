"""A layer made here: what its blob holds is what was unpacked, whatever its size."""

import gzip
import io
import os
import threading
import zlib

import pytest

from engine.daemon.images import making
from engine.daemon.tar.compression import Unpacked
from engine.errors import SystemFailure
from tests.unit.images.made import archive, member


def made(store: object, tar: bytes) -> tuple[object, bytes]:
    """The layer, and the bytes of its blob."""
    with store.session() as session, store.content.incoming() as blob:
        layer, form = making.unpack(session, io.BytesIO(tar), blob)
        assert form == "gzip"
        digest = blob.keep()
        with store.content.open(digest) as kept:
            return layer, kept.read()


@pytest.mark.parametrize("size", [0, 1000, making._BLOCK - 1024, making._BLOCK, 5 * making._BLOCK + 7])
def test_the_blob_is_gzip_of_the_layers_tar(store, size):
    tar = archive(member("file", os.urandom(size)))
    layer, blob = made(store, tar)
    assert gzip.decompress(blob) == tar
    assert io.BufferedReader(Unpacked(io.BytesIO(blob))).read() == tar
    assert (layer.size >= size) and layer.diff_id.startswith("sha256:")


def test_the_same_tar_gives_the_same_blob(store):
    """Blocks are written in their order, whichever thread is done first."""
    tar = archive(*(member(f"file{number}", bytes([number]) * 700_000) for number in range(8)))
    assert len({made(store, tar)[1] for _ in range(3)}) == 1


def test_what_does_not_shrink_is_stored_without_trying(store, monkeypatch):
    """Only samples of random bytes are compressed; what is half text is compressed whole, and a text shrinks."""
    whole = zlib.compress
    tried: list[int] = []

    def compress(data: bytes, level: int, **options: int) -> bytes:
        tried.append(len(data) if level else 0)
        return whole(data, level, **options)

    monkeypatch.setattr(zlib, "compress", compress)
    tar = archive(member("file", os.urandom(4 * making._BLOCK)))
    assert gzip.decompress(made(store, tar)[1]) == tar
    assert sum(tried) < making._BLOCK
    tried.clear()
    mixed = archive(member("file", (os.urandom(1 << 16) + b"text" * (1 << 14)) * 32))
    assert len(made(store, mixed)[1]) < 0.6 * len(mixed)
    assert sum(tried) > len(mixed)


def test_a_small_layer_needs_no_thread(store):
    before = set(threading.enumerate())
    _, blob = made(store, archive(member("file", b"x" * 1000)))
    assert not set(threading.enumerate()) - before
    assert zlib.decompressobj(wbits=31).decompress(blob)


def test_a_failure_leaves_no_thread_behind(store, monkeypatch):
    def full(_: object, data: bytes) -> int:
        raise OSError(28, "no space")

    with store.session() as session, store.content.incoming() as blob:
        monkeypatch.setattr(type(blob), "write", full)
        with pytest.raises(SystemFailure, match="no space"):
            making.unpack(session, io.BytesIO(archive(member("file", os.urandom(8 * making._BLOCK)))), blob)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("squeeze", "write-blob"))]

"""A layer made here: what its blob holds is what was unpacked, whatever its size."""

import gzip
import hashlib
import io
import os
import threading
import zlib
from pathlib import Path

import pytest

from engine.daemon.images import layerblob, making
from engine.daemon.tar.compression import Unpacked
from engine.errors import SystemFailure
from engine.kernel import direct
from tests.unit.images.made import archive, member

BLOCK = layerblob._BLOCK


def made(store: object, tar: bytes, way: object = making.unpack, form: str = "gzip") -> tuple[object, bytes]:
    """The layer, and the bytes of its blob. form: its compression as it has to be"""
    with store.session() as session, store.content.incoming() as blob:
        layer, found = way(session, io.BufferedReader(io.BytesIO(tar)), blob)
        assert found == form
        digest = blob.keep()
        with store.content.open(digest) as kept:
            data = kept.read()
    assert digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert layer.diff_id == f"sha256:{hashlib.sha256(tar).hexdigest()}"
    return layer, data


@pytest.mark.parametrize("way", [making.unpack, making.pack])
@pytest.mark.parametrize("size", [0, 1000, BLOCK - 1024, BLOCK, 5 * BLOCK + 7])
def test_the_blob_is_gzip_of_the_layers_tar(store, size, way):
    tar = archive(member("file", os.urandom(size // 2) + bytes(size - size // 2)))
    layer, blob = made(store, tar, way)
    assert gzip.decompress(blob) == tar
    assert io.BufferedReader(Unpacked(io.BytesIO(blob))).read() == tar
    assert layer.size >= size


@pytest.mark.parametrize("way", [making.unpack, making.pack])
@pytest.mark.parametrize("size", [BLOCK, 5 * BLOCK + 7, 40 * BLOCK])
def test_what_does_not_shrink_is_kept_as_the_tar_itself(store, size, way):
    """Also where a small part of it would shrink, and whatever follows the last whole block."""
    text = b"a little text " * (BLOCK // 14) if size > 32 * BLOCK else b""
    tar = archive(member("file", os.urandom(size)), member("text", text))
    _, blob = made(store, tar, way, form="")
    assert blob == tar


@pytest.mark.parametrize("direct_too", [True, False])
def test_a_blob_whose_rest_shrinks_is_gzip_all_the_same(store, monkeypatch, direct_too):
    """It was begun as the tar itself, and is written anew."""
    if not direct_too:
        monkeypatch.setattr(direct, "begin", lambda _: False)
    tar = archive(member("file", os.urandom(3 * BLOCK)), member("text", b"text" * BLOCK))
    _, blob = made(store, tar)
    assert gzip.decompress(blob) == tar
    assert len(blob) < 3.1 * BLOCK


def test_a_file_system_that_takes_no_pages_past_its_cache_gets_them_through_it(store, monkeypatch):
    """Where it says so at once, and where it says so at a write, some of which it has taken."""
    tar = archive(member("file", os.urandom(3 * BLOCK)))

    def part(fd: int, pages: memoryview) -> int:
        direct.end(fd)
        return os.write(fd, pages[:4096])

    monkeypatch.setattr(direct, "write", part)
    assert made(store, tar, form="")[1] == tar


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
    made(store, archive(member("file", os.urandom(4 * BLOCK))), form="")
    assert sum(tried) < BLOCK
    tried.clear()
    mixed = archive(member("file", (os.urandom(1 << 16) + b"text" * (1 << 14)) * 32))
    assert len(made(store, mixed)[1]) < 0.6 * len(mixed)
    assert sum(tried) > len(mixed)


def test_a_small_layer_needs_no_thread(store):
    before = set(threading.enumerate())
    _, blob = made(store, archive(member("file", b"x" * 1000)))
    assert not set(threading.enumerate()) - before
    assert zlib.decompressobj(wbits=31).decompress(blob)


def test_its_blocks_are_gone_when_it_is_closed(store):
    """Though the object itself is kept, as by a cycle of references."""
    shared = "/dev/zero"  # how the kernel calls anonymous shared memory (proc_pid_maps(5))
    before = Path("/proc/self/maps").read_text().count(shared)
    with store.content.incoming() as blob:
        kept = layerblob.LayerBlob(blob)
        kept.write(os.urandom(6 * BLOCK))
        assert Path("/proc/self/maps").read_text().count(shared) > before
        kept.finish()
        kept.close()
        assert Path("/proc/self/maps").read_text().count(shared) == before


def test_a_failure_leaves_no_thread_behind(store, monkeypatch):
    def full(_: object, data: memoryview) -> None:
        raise OSError(28, "no space")

    with store.session() as session, store.content.incoming() as blob:
        monkeypatch.setattr(type(blob), "write_pages", full)
        with pytest.raises(SystemFailure, match="no space"):
            making.unpack(session, io.BytesIO(archive(member("file", os.urandom(8 * BLOCK)))), blob)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith(("squeeze", "write-blob"))]

"""What `engine migrate` copies for a container to write to takes no second room where the file system has reflinks."""

import os
import shutil

import pytest

from engine.migrate import cloning
from tests.chaos import disks
from tests.harness.fixtures import World

SIZE = 16 << 20


@pytest.mark.skipif(disks.unable("btrfs") != "", reason=disks.unable("btrfs") or "it can be had")
@pytest.mark.skipif(shutil.which("mkfs.btrfs") is None, reason="btrfs-progs is not there")
def test_files_share_their_blocks_until_one_is_written_to(world: World) -> None:
    machine = world.machine()
    with disks.Disk(machine, world.directory() / "btrfs", 256 << 20, "btrfs") as disk:
        for name in ("from", "to"):
            disk.path(name).mkdir()
        disk.path("from", "f").write_bytes(os.urandom(SIZE))
        # Opened now: a directory of btrfs shows those entries alone that it had when it was opened.
        source, sink = (os.open(disk.path(name), os.O_RDONLY | os.O_DIRECTORY) for name in ("from", "to"))
        try:
            os.sync()
            before = disk.room
            done = cloning.clone(source, sink, linked=False)
            os.sync()
            assert (done.size, done.shared, done.copied) == (SIZE, SIZE, 0)
            assert before - disk.room < SIZE // 4
        finally:
            os.close(source)
            os.close(sink)
        with open(disk.path("to", "f"), "r+b") as made:
            made.write(b"changed")
        assert disk.path("from", "f").read_bytes()[:7] != b"changed" == disk.path("to", "f").read_bytes()[:7]

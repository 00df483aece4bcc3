"""Unpacking with root's rights: overlay whiteouts, devices, owners, capabilities; and memory for large layers."""

import io
import os
import stat
import subprocess
import sys
import tarfile

import pytest

from engine.daemon.images.layers import storage
from engine.daemon.images.layers import unpack as layers
from tests.images.conftest import need
from tests.unit.images.made import archive, directory, member

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("way")]

CAPABILITY = b"\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"


@pytest.fixture
def unpacked(tmp_path):
    """Unpack members, in the form for an overlay, as the next layer; its directory."""
    if storage.choose(str(tmp_path)) != storage.OVERLAY:
        pytest.skip("needs a temporary directory that can carry an overlay")
    count = iter(range(100))

    def unpack(*members):
        path = tmp_path / f"layer{next(count)}"
        path.mkdir()
        fd = os.open(path, os.O_RDONLY)
        try:
            layers.unpack(io.BufferedReader(io.BytesIO(archive(*members))), fd, overlay=True)
        finally:
            os.close(fd)
        return path

    return unpack


def merged(tmp_path, *lowest_first):
    """Every path in the overlay of the layers."""
    for name in ("up", "work"):
        (tmp_path / name).mkdir()
    lower = ":".join(str(path) for path in reversed(lowest_first))
    with storage._overlay(lower, str(tmp_path / "up"), str(tmp_path / "work")) as top:
        found = set()
        for path, directories, files, _ in os.fwalk(".", dir_fd=top):
            found |= {os.path.normpath(os.path.join(path, name)) for name in (*directories, *files)}
        return found


def test_whiteouts_are_what_the_kernel_takes_for_whiteouts(tmp_path, unpacked):
    below = unpacked(member("a", b""), member("d/old", b""), member("e/old", b""), member("keep", b""))
    above = unpacked(
        member(".wh.a", b""),
        directory("d"),
        member("d/.wh..wh..opq", b""),
        member("d/new", b""),
        member(".wh.e", b""),
        directory("e"),
        member("e/new", b""),
    )
    found = os.stat(above / "a")
    assert (stat.S_ISCHR(found.st_mode), found.st_rdev) == (True, 0)
    assert os.getxattr(above / "d", "trusted.overlay.opaque") == b"y"
    assert merged(tmp_path, below, above) == {"d", "d/new", "e", "e/new", "keep"}


def test_a_whiteout_after_a_directory_of_its_name_hides_what_was_below_and_not_the_directory(tmp_path, unpacked):
    below = unpacked(member("d/old", b""))
    above = unpacked(member("d/new", b""), member(".wh.d", b""))
    assert merged(tmp_path, below, above) == {"d", "d/new"}


def test_devices_owners_and_capabilities_are_kept(unpacked):
    root = unpacked(
        member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666, uid=7, gid=8),
        member("disk", type=tarfile.BLKTYPE, devmajor=8, devminor=1, mode=0o660),
        member(
            "ping",
            b"x",
            mode=0o4755,
            uid=5,
            gid=6,
            pax_headers={"SCHILY.xattr.security.capability": CAPABILITY.decode("latin-1")},
        ),
    )
    null = os.stat(root / "null")
    assert (null.st_rdev, null.st_uid, null.st_gid, stat.S_IMODE(null.st_mode)) == (os.makedev(1, 3), 7, 8, 0o666)
    assert os.stat(root / "disk").st_rdev == os.makedev(8, 1)
    ping = os.stat(root / "ping")
    assert (ping.st_uid, ping.st_gid, stat.S_IMODE(ping.st_mode)) == (5, 6, 0o4755)
    assert os.getxattr(root / "ping", "security.capability") == CAPABILITY


@pytest.mark.parametrize("name", ["trusted.overlay.redirect", "trusted.overlay.opaque", "trusted.overlay.metacopy"])
def test_a_layer_cannot_speak_to_the_overlay_by_attributes(unpacked, name):
    root = unpacked(member("d", type=tarfile.DIRTYPE, mode=0o755, pax_headers={f"SCHILY.xattr.{name}": "/etc"}))
    assert name not in os.listxattr(root / "d")


def test_the_daemons_umask_is_no_part_of_an_image(unpacked):
    before = os.umask(0o077)
    try:
        root = unpacked(member("a/b", b"", mode=0o666), member("p", type=tarfile.FIFOTYPE, mode=0o666))
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(os.stat(root / name).st_mode) for name in ("a", "a/b", "p")]
    assert modes == [0o755, 0o666, 0o666]


SCRIPT = """
import sys
from engine.daemon.images.catalogue import Catalogue
from engine.daemon.images.verbs import import_
from engine.daemon.store.database import Database
from engine.daemon.store import images
from engine.settings.every import from_arguments
settings = from_arguments(["--config-file", "/dev/null"])
store = Catalogue(Database(sys.argv[1] + "/db", images.SCHEMA), sys.argv[1], settings, "copy")
import_.import_rootfs(store, sys.stdin.buffer, "big", "", "", (), None)
# Not ru_maxrss, which remembers the process that this one was forked from.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_an_image_of_any_size_takes_the_same_memory(tmp_path):
    """200 MB through the import; the limit of the whole daemon is 60 MB."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=os.getcwd()
    )
    info = tarfile.TarInfo("big")
    info.size = 200 * 1024 * 1024
    process.stdin.write(info.tobuf())
    for _ in range(200):
        process.stdin.write(bytes(1024 * 1024))
    process.stdin.write(bytes(1024))
    peak, _ = process.communicate()
    assert process.returncode == 0
    assert int(peak) < 45_000


FULL = """
import io, os, pathlib, sys
from engine.daemon.images import platform
from engine.daemon.images.verbs import import_, load
from engine.daemon.images.verbs import pull as pulling
from engine.errors import SystemFailure
from tests.unit.images import fakeregistry, made
root = pathlib.Path(sys.argv[1])
store = made.store(root)
data = made.archive(made.member("big", os.urandom(30 << 20)))
image = made.MadeImage(data, architecture=platform.host().architecture)
loaded = made.docker_archive(image, ["x:1"])

def pull(size):
    with fakeregistry.serving() as registry:
        # What does not pack takes its room twice; so of a third of it the blob alone has room.
        registry.add(made.MadeImage(data[:-size], architecture=platform.host().architecture), "1")
        pulling.pull(store, f"{registry.address}/x", "1", None, None, lambda line: None)

for attempt in (
    lambda: import_.import_rootfs(store, io.BytesIO(data), "a", "", "", (), None),
    lambda: load.load(store, io.BytesIO(loaded), print),
    lambda: pull(1),
    lambda: pull(7 << 20),
):
    try:
        attempt()
    except SystemFailure as error:
        assert "no space left on device" in str(error), error
    else:
        raise AssertionError("it fitted")
    left = [made.files_below(root / name) for name in ("layers", "tmp", "blobs/sha256")]
    assert left == [set(), set(), set()] and store.all() == [], left
small = made.archive(made.member("small", b"x"))
assert import_.import_rootfs(store, io.BytesIO(small), "a", "", "", (), None).repo_tags == ("a:latest",)
"""


def test_a_full_disk_fails_the_image_and_leaves_the_room_it_took(tmp_path):
    need("unshare", "mount")
    script = tmp_path / "full.py"
    script.write_text(FULL)
    # A file system of its own, in a mount namespace of its own, which goes with the process.
    command = f'mount -t tmpfs -o size=40m none "$1" && exec {sys.executable} {script} "$1"'
    (tmp_path / "disk").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", command, "sh", str(tmp_path / "disk")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr

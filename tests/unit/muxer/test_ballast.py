"""The file of memory into which a spawner moves Python's objects: nobody else writes to it, and no heap is too odd."""

import os
import platform
import subprocess
import sys

import pytest

import _muxer

if not _muxer.built():
    pytest.skip("the C muxer is not built: python3 -m _muxer.build", allow_module_level=True)

from tests.harness.daemon import PROJECT
from tests.unit.muxer.spawned import Spawned

_FILE = "/memfd:python"
# Its small pieces are freed into malloc(3)'s bins, and a large piece joins them with the heap's end, which is not given
# back to the kernel then, but with the next small piece that is freed.
_SLACK = """
import ctypes, socket
from engine.monitor.nativeprocess import Processes
stay, (ours, theirs), c = Processes(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), ctypes.CDLL(None)
c.malloc.restype, c.free.argtypes = ctypes.c_void_p, (ctypes.c_void_p,)
pieces = [c.malloc(72) for _ in range(40_000)]
ours.close()
for piece in pieces:
    c.free(piece)
c.malloc(1 << 16)
print(stay.spawn(theirs.fileno(), False))
"""


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="with AddressSanitizer there is no such file")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="nor is there with another C library")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root opens /proc/PID/map_files")
def test_nobody_writes_to_the_file_that_all_monitors_map() -> None:
    """Who may open /proc/PID/map_files in a container could change the memory of every monitor by it."""
    one = Spawned()
    try:
        link = one.ask(mark=b"W")  # once it is answered, by its end, the spawner is at work
        assert link.recv(1) == b""
        with open(f"/proc/{one.pid}/maps") as maps:
            places = [line.split()[0] for line in maps if _FILE in line]
        assert places
        for place in places:
            file = os.open(f"/proc/{one.pid}/map_files/{place}", os.O_RDWR)
            try:
                with pytest.raises(PermissionError):
                    os.pwrite(file, b"x", 0)
                with pytest.raises(PermissionError):
                    os.ftruncate(file, 0)
            finally:
                os.close(file)
    finally:
        assert one.end() == 0
        assert one.complaints() == ""


def test_a_heap_whose_end_is_given_back_meanwhile() -> None:
    """malloc(3) without its caches, as GLIBC_TUNABLES have it."""
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    ended = subprocess.run(
        [sys.executable, "-c", _SLACK], cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended

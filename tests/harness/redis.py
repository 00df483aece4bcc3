"""The image `redis:7` of the tests: Redis as the set-up unpacked it from Debian, and the host's busybox as its shell.

Pure: reads the cache and one program, returns bytes.
"""

import functools
import io
import tarfile

import pytest

from tests.__main__ import CACHE
from tests.harness import rootfs
from tests.setup import redis

NAME = "redis:7"
CHANGES = (*rootfs.CHANGES[:1], "EXPOSE 6379", "VOLUME /data", 'CMD ["redis-server", "--dir", "/data"]')


def need() -> None:
    """Skip where there is none."""
    if not redis.complete(CACHE):
        pytest.skip("needs a Redis: `python3 -m tests` unpacks Debian's, as root on Debian")
    if rootfs.program() is None:
        pytest.skip("needs busybox: apt-get install busybox-static")


@functools.cache
def image() -> bytes:
    """The archive of its root filesystem."""
    buffer = io.BytesIO(rootfs.busybox())
    with tarfile.open(fileobj=buffer, mode="a", format=tarfile.PAX_FORMAT) as tar:
        there = set(tar.getnames())  # dockerd takes no archive that names a thing twice
        for path in sorted(redis.place(CACHE).rglob("*")):
            name = path.relative_to(redis.place(CACHE)).as_posix()
            if name not in there:
                tar.add(path, name, recursive=False)
    return buffer.getvalue()

"""Which devices of a container are not to be walked, and that a thread in a namespace of its own hands back all."""

import os
import threading

import pytest

from engine.daemon.containers.contents import rootfs

MOUNTINFO = b"""\
600 500 0:50 / / rw,relatime - overlay overlay rw,lowerdir=1
601 600 0:51 / /proc rw,nosuid - proc proc rw
602 600 0:52 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k
603 602 0:53 / /dev/pts rw - devpts devpts rw
604 600 0:54 / /sys ro - sysfs sysfs ro
605 604 0:30 /x /sys/fs/cgroup ro - cgroup2 cgroup rw
606 600 254:0 /some\\040where /data rw,relatime shared:5 master:2 - ext4 /dev/vda rw
607 600 0:55 / /tmp rw - tmpfs tmpfs rw
"""


def test_what_is_the_kernels_or_the_engines_is_closed() -> None:
    closed = rootfs._closed(MOUNTINFO)
    assert closed == {os.makedev(0, minor) for minor in (51, 52, 53, 54, 30)}


def test_a_job_aside_returns_and_raises_as_if_it_were_here() -> None:
    names = []

    def job() -> int:
        names.append(threading.current_thread().name)
        return 5

    def fail() -> None:
        raise KeyError("x")

    assert rootfs._aside(job) == 5 and names == ["view"]
    with pytest.raises(KeyError):
        rootfs._aside(fail)

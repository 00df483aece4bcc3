"""What the sandbox tests share: a root of busybox on a file system that can carry an overlay, bait, an attacker."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import _muxer
from tests.harness import compiled
from tests.sandbox import bait as baits
from tests.sandbox.harness import BUSYBOX, Bench

# What no shell can do. `swap A B`: exchange two names as fast as it can, after "ready"; `socket FAMILY`: that call with
# the whole register, and its errno; `push`: TIOCSTI of "x" to standard input, and its errno.
ATTACKER = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "swap")) {
        puts("ready");
        fflush(stdout);
        for (;;) syscall(SYS_renameat2, AT_FDCWD, words[2], AT_FDCWD, words[3], 2 /* RENAME_EXCHANGE */);
    }
    if (count == 3 && !strcmp(words[1], "socket"))
        printf("%d\n", syscall(SYS_socket, strtoul(words[2], 0, 0), 5, 0) < 0 ? errno : 0);
    else if (count == 2 && !strcmp(words[1], "push"))
        printf("%d\n", ioctl(0, TIOCSTI, "x") < 0 ? errno : 0);
    else
        return 2;
    return 0;
}
"""


@pytest.fixture(scope="session", params=["plain", "staged", "old", "native", "native staged"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Sandboxes to be had, made in each of the ways of `Bench`; skips where they cannot."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if BUSYBOX is None:
        pytest.skip("needs busybox, statically linked (package busybox-static)")
    if request.param.startswith("native") and not _muxer.built():
        pytest.skip("the C muxer is not built: python3 -m _muxer.build")
    made = Bench(Path(tmp_path_factory.mktemp("bench")), request.param)
    result = made.run(made.sandbox("true"))
    if result.status != 0 and "overlay" in str(result.reports):
        pytest.skip(f"the temporary directory cannot carry an overlay: {result.reports}")
    return made


@pytest.fixture
def bait(tmp_path: Path) -> Iterator[Path]:
    """A directory of the host that nobody must touch; its path is none in the container."""
    place = baits.place(tmp_path)
    before = baits.state(place)
    yield place
    assert baits.state(place) == before


@pytest.fixture(scope="session")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A static program that makes the calls of ATTACKER."""
    return compiled.static(ATTACKER, tmp_path_factory.mktemp("attacker"))

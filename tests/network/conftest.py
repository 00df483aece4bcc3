"""A machine beside a daemon's; networks without a daemon, of which the test's own thread is in one."""

import contextlib
import os
from collections.abc import Iterator

import pytest

from engine.kernel import netns, syscalls
from engine.kernel.netlink import links, loopback
from engine.kernel.netlink.socket import Netlink
from tests.harness.daemon import Daemon
from tests.harness.hosts import Host
from tests.harness.namespaces import Namespaces


@pytest.fixture(scope="module")
def outside(apart: Daemon) -> Iterator[Host]:
    """A machine beside the daemon's."""
    with Host(apart.namespaces) as host:
        yield host


@pytest.fixture
def ours() -> Iterator[None]:
    """The test's thread in a new network, which is the host's for what it calls."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.unshare(syscalls.CLONE_NEWNET)
        try:
            loopback.set_up()
            yield
        finally:
            syscalls.setns(home, syscalls.CLONE_NEWNET)
    finally:
        os.close(home)


@pytest.fixture(scope="module")
def keepers() -> Iterator[list[Namespaces]]:
    """Three networks that stand for containers'."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Namespaces()) for _ in range(3)]


@pytest.fixture
def inside(keepers: list[Namespaces]) -> Iterator[list[int]]:
    """Descriptors of them, with nothing but loopback in them at the end."""
    opened = [os.open(f"/proc/{each.keeper.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC) for each in keepers]
    yield opened
    for namespace in opened:
        with netns.entered(namespace), Netlink() as netlink:
            for link in links.every(netlink):
                if link.name != "lo":
                    netlink.send((links.delete(link.name),))
        os.close(namespace)

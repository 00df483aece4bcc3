"""What a proxy may still do, once it is confined: it sends from others' addresses only if it is transparent."""

import os
import socket
from collections.abc import Callable

import pytest

from engine.proxy import confine

_TRANSPARENT = socket.IPPROTO_IP, 19
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it has a capability to keep")


def borrow(address: str) -> None:
    """Bind a socket to an address that this host does not have."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.setsockopt(*_TRANSPARENT, 1)
        made.bind((address, 0))


def raw() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


def packets() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM).close()


def netlink() -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()


def low() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as made:
        made.bind(("127.0.0.1", 1))


def plain() -> None:
    for family in (socket.AF_INET, socket.AF_INET6):
        socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC).close()
        socket.socket(family, socket.SOCK_STREAM).close()


def allowed(version: str, transparent: bool, work: Callable[[], None]) -> bool:
    """Whether a confined process can do this."""
    pid = os.fork()
    if not pid:
        status = 2
        try:
            if version == "python":
                confine.confine(transparent)
            else:
                from _muxer._native import lib  # late: it may not be built

                assert lib.mux_proxy_confine(int(transparent)) == 0
            try:
                work()
                status = 0
            except PermissionError:
                status = 1
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 1)
    return status == 0


def test_a_transparent_proxy_alone_sends_from_others_addresses(version: str) -> None:
    assert allowed(version, True, lambda: borrow("203.0.113.7"))
    assert not allowed(version, False, lambda: borrow("203.0.113.7"))


def test_neither_has_another_right(version: str) -> None:
    for transparent in (True, False):
        assert allowed(version, transparent, plain)
        assert not allowed(version, transparent, low)


@pytest.mark.parametrize("work", [raw, packets, netlink])
def test_in_c_the_right_is_for_nothing_else(version: str, work: Callable[[], None]) -> None:
    if version == "c":
        assert not allowed("c", True, work)
    assert not allowed(version, False, work) or work is netlink

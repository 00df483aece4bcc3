"""Talking to the kernel over netlink, and in the network of somebody else."""

import errno
import os
import socket
import struct

import pytest

from engine.kernel import netns
from engine.kernel.netlink import addresses, links, message
from engine.kernel.netlink.socket import Netlink

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_a_thread_comes_back_from_another_network_whatever_happens_there(inside: list[int]) -> None:
    """And what it opened there stays of that network."""
    home = os.readlink("/proc/thread-self/ns/net")
    with pytest.raises(OSError, match="there") as failure, netns.entered(inside[0]):
        assert os.readlink("/proc/thread-self/ns/net") != home
        raise OSError(errno.EIO, "there")
    assert failure.value.errno == errno.EIO
    assert os.readlink("/proc/thread-self/ns/net") == home


def test_what_others_write_to_the_socket_is_passed_over(ours: None) -> None:
    """A container that may change its network may also send to a socket in it: a false answer is not believed."""
    with Netlink() as netlink, socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as liar:
        netlink.send((links.change(1, up=True),))
        port, _ = netlink._socket.getsockname()
        lie = message.encode(message.ERROR, 0, 2, struct.pack("=i", -errno.EPERM) + bytes(16))
        liar.sendto(lie, (port, 0))
        netlink.send((links.change(1, up=True),))
        liar.sendto(message.encode(message.DONE, 2, 3, bytes(4)), (port, 0))
        assert [link.name for link in links.every(netlink)] == ["lo"]


def test_a_refusal_says_which_request_and_what_the_kernel_says_of_it(ours: None) -> None:
    """Of several in one sending; the others are carried out."""
    with Netlink() as netlink, pytest.raises(OSError, match="Invalid prefix length") as refused:
        netlink.send(
            (addresses.add(1, "10.0.0.1", 8), addresses.add(1, "10.0.0.2", 77), addresses.add(1, "10.0.0.3", 8))
        )
    assert (refused.value.errno, refused.value.index) == (errno.EINVAL, 1)
    with Netlink() as netlink:
        assert {"10.0.0.1", "10.0.0.3"} <= {one.address for one in addresses.addresses(netlink)}

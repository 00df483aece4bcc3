"""Makes, changes, finds and removes network links (bridge, veth pair, macvlan, ipvlan, VLAN, dummy) over rtnetlink(7).

The functions that return a `Request` are pure; those that take a socket act in its network namespace. Existing links
are named by their index. Numbers: linux/if_link.h, linux/rtnetlink.h.
"""

import errno
import fcntl
import struct
import time

from engine.dataclass import dataclass
from engine.kernel.netlink import message
from engine.kernel.netlink.message import Request
from engine.kernel.netlink.socket import Netlink, Refused

NAME_BYTES = 15

_NEWLINK = 16
_DELLINK = 17
_GETLINK = 18
_SETLINK = 19
_LINK = struct.Struct("=BxHiII")
_UP = 0x1
_EXCLUSIVELY = message.CREATE | message.EXCLUSIVE

_ADDRESS = 1
_IFNAME = 3
_MTU = 4
_PARENT = 5
_MASTER = 10
_PROTOCOL_INFO = 12
_OPERSTATE = 16
_WORKS = bytes((6,))
_LINKINFO = 18
_IFALIAS = 20
_AF_SPEC = 26
_NET_NS_FD = 28
_EXT_MASK = 29
_SKIP_STATISTICS = 8
_TX_QUEUES = 31
_RX_QUEUES = 32
_INFO_KIND = 1
_INFO_DATA = 2
_VETH_PEER = 1
_MACVLAN_MODE = 1
_IPVLAN_MODE = 1
_IPVLAN_FLAGS = 2
_VLAN_ID = 1
_INET4 = 2
_INET6 = 10
_INET4_CONF = 1
_INET6_ADDRESSES = 8
_BY_HAND = 1
_BRIDGE = 7
_PORT_STATE = 1
_PORT_HAIRPIN = 4
_DISABLED = 0

_ARP_NOTIFY = 23  # its number among the parameters of an interface (linux/ip.h)

MACVLAN_MODES = {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}
IPVLAN_MODES = {"l2": 0, "l3": 1, "l3s": 2}
IPVLAN_FLAGS = {"bridge": 0, "private": 1, "vepa": 2}

_SIOCGIFFLAGS = 0x8913
_SIOCGIFINDEX = 0x8933
_IFREQ = struct.Struct("=16si20x")


@dataclass(frozen=True, slots=True)
class Link:
    """A link as the kernel shows it.

    kind: `bridge`, `veth`, ..., empty for hardware; master: index of its bridge, or 0
    parent: index of the link below a VLAN or macvlan, or of a veth's peer, or 0
    """

    index: int
    name: str
    up: bool
    mtu: int
    mac: str = ""
    kind: str = ""
    alias: str = ""
    master: int = 0
    parent: int = 0


def bridge(name: str, mac: str, mtu: int, alias: str = "") -> list[Request]:
    """Make a bridge. Its own MAC address keeps it from taking the lowest one of its ports.

    alias: marks the bridge as the engine's; sent together with it, because the process may be killed between two sends
    """
    return _aliased(name, alias, _new(name, "bridge", attributes=_hardware(mac, mtu)))


def veth(
    name: str, master: int, mtu: int, peer: str, peer_mac: str, namespace: int, *, ipv6: bool = True
) -> list[Request]:
    """Make a veth pair: `name` here, up and a port of `master`; `peer`, down, in the network namespace behind a
    descriptor.

    This end gets no IPv6 address: a port needs none, and the kernel would send IPv6 packets of its own from it.
    ipv6: whether the kernel has IPv6 at all
    """
    # One queue is enough for a link without a transmit lock and a queueing discipline. The default, one queue for each
    # processor, costs 0.1 ms to make.
    queues = message.u32(_TX_QUEUES, 1) + message.u32(_RX_QUEUES, 1)
    there = _LINK.pack(0, 0, 0, 0, 0) + message.text(_IFNAME, peer) + _hardware(peer_mac, mtu) + queues
    there += message.u32(_NET_NS_FD, namespace)
    here = _hardware("", mtu) + message.u32(_MASTER, master) + queues
    silent = message.nested(_AF_SPEC, message.nested(_INET6, message.u8(_INET6_ADDRESSES, _BY_HAND)))
    named = message.text(_IFNAME, name)
    made = _new(name, "veth", message.attribute(_VETH_PEER, there), here)
    up = (_NEWLINK, 0, _LINK.pack(0, 0, 0, _UP, _UP) + named)
    return [made, (_NEWLINK, 0, _LINK.pack(0, 0, 0, 0, 0) + named + silent), up] if ipv6 else [made, up]


def macvlan(name: str, parent: int, mode: str, mac: str, mtu: int, namespace: int) -> Request:
    """Make a macvlan of the link `parent` of this namespace, down, in the network namespace behind a descriptor."""
    data = message.u32(_MACVLAN_MODE, MACVLAN_MODES[mode])
    return _new(name, "macvlan", data, _hardware(mac, mtu) + _of(parent, namespace))


def ipvlan(name: str, parent: int, mode: str, flag: str, mtu: int, namespace: int) -> Request:
    """Make an ipvlan of the link `parent` of this namespace, down, in the network namespace behind a descriptor."""
    data = message.u16(_IPVLAN_MODE, IPVLAN_MODES[mode]) + message.u16(_IPVLAN_FLAGS, IPVLAN_FLAGS[flag])
    return _new(name, "ipvlan", data, _hardware("", mtu) + _of(parent, namespace))


def vlan(name: str, parent: int, tag: int, alias: str = "") -> list[Request]:
    """Make the VLAN `tag` (802.1Q) of a link, up. alias: see `bridge`"""
    return _aliased(name, alias, _new(name, "vlan", message.u16(_VLAN_ID, tag), message.u32(_PARENT, parent), up=True))


def dummy(name: str, alias: str = "") -> list[Request]:
    """Make a dummy link, which leads nowhere, up. alias: see `bridge`"""
    return _aliased(name, alias, _new(name, "dummy", up=True))


def change(
    index: int, *, up: bool | None = None, mtu: int = 0, master: int = 0, alias: str = "", announce: bool = False
) -> Request:
    """Change a link. master: the index of the bridge whose port it becomes

    announce: the link tells its IPv4 addresses to the neighbours when it comes up (arp_notify)
    """
    body = _hardware("", mtu)
    if master:
        body += message.u32(_MASTER, master)
    if alias:
        body += message.text(_IFALIAS, alias)
    if announce:
        notify = message.nested(_INET4_CONF, message.u32(_ARP_NOTIFY, 1))
        body += message.nested(_AF_SPEC, message.nested(_INET4, notify))
    flags = 0 if up is None else _UP
    return _NEWLINK, 0, _LINK.pack(0, 0, index, _UP if up else 0, flags) + body


def move(index: int, name: str, namespace: int, mac: str = "") -> Request:
    """Move a link that is down to the network namespace behind a descriptor, where it has this name and MAC address."""
    body = message.text(_IFNAME, name) + message.u32(_NET_NS_FD, namespace) + _hardware(mac, 0)
    return _NEWLINK, 0, _LINK.pack(0, 0, index, 0, 0) + body


def hairpin(index: int) -> Request:
    """Let a bridge's port send packets out again by which they came in (hairpin mode)."""
    port = message.nested(_PROTOCOL_INFO, message.u8(_PORT_HAIRPIN, 1))
    return _SETLINK, 0, _LINK.pack(_BRIDGE, 0, index, 0, 0) + port


def silence(index: int) -> Request:
    """Disable a bridge's port: it forwards no packet any more, in either direction."""
    port = message.nested(_PROTOCOL_INFO, message.u8(_PORT_STATE, _DISABLED))
    return _SETLINK, 0, _LINK.pack(_BRIDGE, 0, index, 0, 0) + port


def delete(name: str) -> Request:
    """Remove the link of this name."""
    return _DELLINK, 0, _LINK.pack(0, 0, 0, 0, 0) + message.text(_IFNAME, name)


def discard(netlink: Netlink, name: str) -> None:
    """Remove the link of this name, if there is one. Raises Refused."""
    try:
        netlink.send((delete(name),))
    except Refused as error:
        if error.errno != errno.ENODEV:  # it is gone already
            raise


def find(netlink: Netlink, name: str) -> Link | None:
    """The link of this name, or None."""
    try:
        (answer,) = netlink.ask(_GETLINK, _LINK.pack(0, 0, 0, 0, 0) + message.text(_IFNAME, name))
    except Refused as error:
        if error.errno == errno.ENODEV:
            return None
        raise
    return _link(answer.payload)


def every(netlink: Netlink) -> list[Link]:
    """All links in the socket's network namespace."""
    return [_link(answer.payload) for answer in netlink.dump(_GETLINK, _LINK.pack(0, 0, 0, 0, 0))]


def index_of(netlink: Netlink, name: str) -> int:
    """The index of the link of this name, 0 for none. It is an ioctl, ten times as fast as `find` (netdevice(7))."""
    try:
        index: int = _IFREQ.unpack(fcntl.ioctl(netlink.fileno(), _SIOCGIFINDEX, _IFREQ.pack(name.encode(), 0)))[1]
    except OSError as error:
        if error.errno == errno.ENODEV:
            return 0
        raise
    return index


def is_up(netlink: Netlink, name: str) -> bool:
    """Whether a link of this name exists and is up."""
    try:
        flags = _IFREQ.unpack(fcntl.ioctl(netlink.fileno(), _SIOCGIFFLAGS, _IFREQ.pack(name.encode(), 0)))[1]
    except OSError as error:
        if error.errno == errno.ENODEV:
            return False
        raise
    return bool(flags & _UP)


def settle(netlink: Netlink, name: str, seconds: float = 0.05) -> None:
    """Wait until a link that is up is operational, so that a bridge forwards to it, at most `seconds`.

    A kernel worker notes a new carrier some time later, and the kernel drops packets until then. Since Linux 6.8 the
    kernel notes it at once for a process that asks about the link. With an older kernel this function asks until it is
    done.
    """
    question = _LINK.pack(0, 0, 0, 0, 0) + message.text(_IFNAME, name) + message.u32(_EXT_MASK, _SKIP_STATISTICS)
    end = time.monotonic() + seconds
    while True:
        (answer,) = netlink.ask(_GETLINK, question)
        # Stops at the third of some forty attributes.
        state = next((value for kind, value in message.listed(answer.payload, _LINK.size) if kind == _OPERSTATE), b"")
        if state == _WORKS or time.monotonic() > end:
            return
        time.sleep(0.0005)  # polled: a kernel worker is about to do it, and there is no event for just this link


def _new(name: str, kind: str, data: bytes = b"", attributes: bytes = b"", *, up: bool = False) -> Request:
    info = message.text(_INFO_KIND, kind)
    if data:
        info += message.nested(_INFO_DATA, data)
    flags = _UP if up else 0
    body = (
        _LINK.pack(0, 0, 0, flags, flags) + message.text(_IFNAME, name) + attributes + message.nested(_LINKINFO, info)
    )
    return _NEWLINK, _EXCLUSIVELY, body


def _aliased(name: str, alias: str, made: Request) -> list[Request]:
    if not alias:
        return [made]
    body = _LINK.pack(0, 0, 0, 0, 0) + message.text(_IFNAME, name) + message.text(_IFALIAS, alias)
    return [made, (_NEWLINK, 0, body)]


def _hardware(mac: str, mtu: int) -> bytes:
    packed = message.attribute(_ADDRESS, bytes.fromhex(mac.replace(":", ""))) if mac else b""
    return packed + (message.u32(_MTU, mtu) if mtu else b"")


def _of(parent: int, namespace: int) -> bytes:
    return message.u32(_PARENT, parent) + message.u32(_NET_NS_FD, namespace)


def _link(payload: memoryview) -> Link:
    _, _, index, flags, _ = _LINK.unpack_from(payload, 0)
    found = message.attributes(payload, _LINK.size)
    info = message.attributes(found.get(_LINKINFO, b""))
    return Link(
        index,
        _text(found.get(_IFNAME, b"")),
        bool(flags & _UP),
        _number(found.get(_MTU, b"")),
        found.get(_ADDRESS, b"").hex(":"),
        _text(info.get(_INFO_KIND, b"")),
        _text(found.get(_IFALIAS, b"")),
        _number(found.get(_MASTER, b"")),
        _number(found.get(_PARENT, b"")),
    )


def _text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "surrogateescape")


def _number(value: bytes) -> int:
    return struct.unpack("=I", value)[0] if len(value) == 4 else 0

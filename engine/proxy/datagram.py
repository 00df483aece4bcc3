"""Published UDP ports: each client has a socket of its own towards the container, until it has been silent for a while.

One thread. The Python version of `_muxer/proxy/datagram.c`. A client is known by its address and by the address of the
host that it sends to, from which the answers go back: a host has several. The number of clients is bounded, for each
container too; a new one takes the place of the one that has been silent for longest.
"""

import contextlib
import socket
import struct

from engine.proxy.bounds import Limits
from engine.proxy.reach import Address, reach
from engine.proxy.record import Carried, Lead, Owner
from engine.proxy.turns import Loop

_LARGEST = 65536
_AT_ONCE = 32  # datagrams of one socket, before others have their turn
_MULTICAST = 0xFF
_IP_PKTINFO, _IPV6_RECVPKTINFO, _IPV6_PKTINFO = 8, 49, 50
_INFO4 = struct.Struct("=i4s4s")  # struct in_pktinfo: link, local address, address in the datagram
_INFO6 = struct.Struct("=16si")  # struct in6_pktinfo
_CONTROL = socket.CMSG_SPACE(_INFO6.size)
_LINK_LOCAL = (0xFE, 0x80)

_Client = tuple[Address, bytes, int]
"""Who sends, to which of the host's addresses, and for a link-local address on which link, else 0."""


def prepare(sock: socket.socket) -> None:
    """Make a socket of the host tell to which address each datagram was sent. Raises OSError."""
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)


class Flows:
    """All clients of UDP ports of a proxy."""

    def __init__(self, served: Loop, limits: Limits) -> None:
        self.loop, self.limits = served, limits
        self.known: dict[tuple[Lead, _Client], Flow] = {}
        self.owners: dict[Owner, None] = {}

    def hear(self, lead: Lead) -> None:
        """Pass on the datagrams that have come from clients."""
        for _ in range(_AT_ONCE):
            try:
                data, control, _, peer = lead.socket.recvmsg(_LARGEST, _CONTROL)
            except BlockingIOError:
                return
            except OSError:  # an error of the network, which is over once it was returned
                continue
            # Of a v6 address the flow information may differ from datagram to datagram.
            peer = (peer[0], peer[1], 0, peer[3]) if len(peer) == 4 else peer
            flow = self._flow(lead, (peer, *_local(control)))
            if flow is not None:
                flow.send(data)

    def _flow(self, lead: Lead, client: _Client) -> "Flow | None":
        flow = self.known.get((lead, client))
        if flow is None:
            self._make_room(lead.owner)
            try:
                flow = Flow(self, lead, client)
            except OSError:  # the container's network is gone, or there is no room; a datagram may be lost
                return None
            self.loop.after(self.limits.idle_ms // 4 + 1, self.close_idle)
        flow.use()
        return flow

    def _make_room(self, owner: Owner) -> None:
        """Close the flow that has been silent for longest, if there is no room for another one of this owner."""
        if len(owner.flows) >= self.limits.flows_each:
            next(iter(owner.flows)).abort()
        elif len(self.known) >= self.limits.flows:
            min((_oldest(each) for each in self.owners), key=lambda flow: flow.used_ms).abort()

    def close_idle(self) -> None:
        """Close the flows that have been silent for too long."""
        before = self.loop.now_ms - self.limits.idle_ms
        for owner in list(self.owners):
            while owner.flows and _oldest(owner).used_ms <= before:
                _oldest(owner).abort()
        if self.known:
            self.loop.after(self.limits.idle_ms // 4 + 1, self.close_idle)


class Flow(Carried):
    """One client of one port. used_ms: when its last datagram came, in either direction"""

    def __init__(self, flows: Flows, lead: Lead, client: _Client) -> None:
        """Raises OSError."""
        self._flows, self._lead, self._client = flows, lead, client
        self.used_ms = flows.loop.now_ms
        self._socket = reach(flows.limits.transparent, socket.SOCK_DGRAM, client[0], (lead.address, lead.port))
        try:
            flows.loop.add(self._socket.fileno(), lambda _: self._answered())
        except OSError:
            self._socket.close()
            raise
        flows.known[lead, client] = self
        flows.owners[lead.owner] = None

    def use(self) -> None:
        """Take note that the client is not silent."""
        self.used_ms = self._flows.loop.now_ms
        flows = self._lead.owner.flows
        flows.pop(self, None)
        flows[self] = None

    def send(self, data: bytes) -> None:
        """Pass a datagram on to the container; it may be lost."""
        for _ in range(2):  # the first error may be that of an earlier datagram
            try:
                self._socket.send(data)
                return
            except ConnectionRefusedError:
                continue
            except OSError:
                return

    def abort(self) -> None:
        """Forget the client."""
        self._flows.loop.drop(self._socket.fileno())
        self._socket.close()
        del self._flows.known[self._lead, self._client]
        owner = self._lead.owner
        owner.flows.pop(self, None)
        if not owner.flows:
            self._flows.owners.pop(owner, None)

    def _answered(self) -> None:
        """Pass on what the container answers, from the address that the client has sent to."""
        for _ in range(_AT_ONCE):
            try:
                data = self._socket.recv(_LARGEST)
            except BlockingIOError:
                return
            except OSError:  # nobody listens there; reading the error ends it
                continue
            self.use()
            with contextlib.suppress(OSError):  # a datagram may be lost
                self._lead.socket.sendmsg([data], [self._source()], socket.MSG_DONTWAIT, self._client[0])

    def _source(self) -> tuple[int, int, bytes]:
        _, local, interface = self._client
        if len(local) == 16:
            return socket.IPPROTO_IPV6, _IPV6_PKTINFO, _INFO6.pack(local, interface)
        return socket.IPPROTO_IP, _IP_PKTINFO, _INFO4.pack(0, local, bytes(4))


def _oldest(owner: Owner) -> Flow:
    oldest = next(iter(owner.flows))
    assert isinstance(oldest, Flow)  # no other class is ever put there
    return oldest


def _local(control: list[tuple[int, int, bytes]]) -> tuple[bytes, int]:
    """To which of the host's addresses a datagram was sent, and on which link; zeros for any."""
    for level, kind, content in control:
        if (level, kind) == (socket.IPPROTO_IPV6, _IPV6_PKTINFO):
            local, interface = _INFO6.unpack(content)
            if local[0] == _MULTICAST:
                return bytes(16), 0
            is_local = (local[0], local[1] & 0xC0) == _LINK_LOCAL
            return local, interface if is_local else 0
        if (level, kind) == (socket.IPPROTO_IP, _IP_PKTINFO):
            return _INFO4.unpack(content)[1], 0  # for a broadcast the address of the link
    return bytes(16), 0

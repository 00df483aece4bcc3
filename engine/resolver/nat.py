"""Rules that lead port 53 of 127.0.0.11 in a container's network to the resolver, in the form that dockerd's have.

Programs rely on that form: the entrypoints of kind's and k3d's nodes read it with iptables-save, put another address in
the place of 127.0.0.11, and restore it. So these are the chains DOCKER_OUTPUT and DOCKER_POSTROUTING of iptables' table
`nat`, with the matches and targets that every release of iptables-nft can read. They need nft_compat, xt_nat and
connection tracking; where the kernel lacks one of these, `redirect` does without.

A later resolver leaves rules alone that lead to its own ports, since they may have been rewritten. It knows that by the
name of a chain in a table of the engine's own. That chain keeps out what other hosts send to 127.0.0.11, unless the
container itself has led it there.
"""

import errno
import socket
import struct

from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.message import EXCLUSIVE, Request, text
from engine.kernel.netlink.socket import Netlink
from engine.resolver import redirect
from engine.resolver.redirect import PORT, chain, request, rule, table
from engine.sandbox.resolvconf import RESOLVER

USUAL_PORT = 61053
"""The resolver's port for both protocols, so that rules stay right when another resolver takes over. No program gets it
unasked: the kernel's own choice ends before it."""

_TABLE = "nat"
_QUERIES, _ANSWERS = "DOCKER_OUTPUT", "DOCKER_POSTROUTING"
_WAYS = (("OUTPUT", 3, -100, _QUERIES), ("POSTROUTING", 4, 100, _ANSWERS))
"""Chain, hook and priority as iptables has them, and dockerd's chain."""

_ADDRESS = socket.inet_aton(RESOLVER)
_NETWORK = 1
_NAMES = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp"}
_IPS, _PORTS = 1, 2  # what a range of addresses and ports says: NF_NAT_RANGE_MAP_IPS, NF_NAT_RANGE_PROTO_SPECIFIED


def lead(ports: dict[int, int]) -> Netlink:
    """Lead each protocol's port 53 of the resolver's address to this port, in the network of the calling thread.

    Returns the netlink socket, which the caller owns: see `redirect.redirect`. Raises OSError.
    """
    netlink = Netlink(redirect.NETLINK_NETFILTER)
    try:
        try:
            netlink.send(_batch(ports), acknowledged=-2)
        except OSError as error:
            if error.errno != errno.EEXIST:
                raise
            if not _has(netlink, ports):
                try:
                    netlink.send(_batch(ports, again=True), acknowledged=-2)
                except OSError as problem:  # with what the container has made of the rules: the kernel lacks nothing
                    raise error from problem
    except BaseException:
        netlink.close()
        raise
    return netlink


def _has(netlink: Netlink, ports: dict[int, int]) -> bool:
    """Whether rules are here that lead to these ports."""
    try:
        netlink.send([request(redirect.GET_CHAIN, table(redirect.TABLE), text(3, _guard_name(ports)))])
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    return True


def _batch(ports: dict[int, int], *, again: bool = False) -> list[Request]:
    """The transaction, which the kernel refuses with EEXIST if there are rules already. again: it replaces those."""
    made = [*_guard(ports), request(redirect.NEW_TABLE, table(_TABLE))]
    made += [chain(_TABLE, name, hook, priority, kind="nat") for name, hook, priority, _ in _WAYS]
    for *_, name in _WAYS:
        made.append(request(redirect.NEW_CHAIN, table(_TABLE), text(3, name), flags=0 if again else EXCLUSIVE))
        if again:  # the container may have removed one of the two
            made.append(request(redirect.DELETE_RULE, table(_TABLE), text(2, name)))
    to_resolver = nft.destination(nft.IPV4) + nft.compare(_ADDRESS)
    for base, _, _, name in () if again else _WAYS:
        made.append(rule(_TABLE, base, to_resolver, nft.COUNTER, nft.decide(nft.jump(name)), first=True))
    from_resolver = nft.source(nft.IPV4) + nft.compare(_ADDRESS)
    for protocol, name in _NAMES.items():
        port = ports[protocol]
        target = struct.pack("=I4s12x4s12xHHH", _IPS | _PORTS, _ADDRESS, _ADDRESS, *[socket.htons(port)] * 2, 0)
        queries = to_resolver, _protocol(protocol), _match(name, 0, PORT), nft.COUNTER, _target("DNAT", 2, target)
        made.append(rule(_TABLE, _QUERIES, *queries, protocol=protocol))
        target = struct.pack("=II8xHH", 1, _PORTS, *[socket.htons(PORT)] * 2)
        answers = from_resolver, _protocol(protocol), _match(name, port, 0), nft.COUNTER, _target("SNAT", 0, target)
        made.append(rule(_TABLE, _ANSWERS, *answers, protocol=protocol))
    return redirect.batch(made)


def _guard_name(ports: dict[int, int]) -> str:
    return f"to-{ports[socket.IPPROTO_UDP]}-{ports[socket.IPPROTO_TCP]}"


def _guard(ports: dict[int, int]) -> list[Request]:
    """The engine's own table, in place of an earlier one: to 127.0.0.11 comes what is from here, or was led there."""
    name, own = _guard_name(ports), table(redirect.TABLE)
    from_others = nft.destination(nft.IPV4) + nft.compare(_ADDRESS)
    from_others += nft.interface("iifname", "lo", nft.DIFFERENT)
    return [
        request(redirect.NEW_TABLE, own),
        request(redirect.DELETE_TABLE, own),
        request(redirect.NEW_TABLE, own),
        chain(redirect.TABLE, name, redirect.INPUT, 0),
        rule(redirect.TABLE, name, from_others, nft.status(nft.DESTINATION_CHANGED), nft.decide(nft.ACCEPT)),
        rule(redirect.TABLE, name, from_others, nft.decide(nft.DROP)),
    ]


def _protocol(number: int) -> bytes:
    return nft.payload(_NETWORK, 9, 1) + nft.compare(bytes((number,)))


def _match(name: str, source: int, destination: int) -> bytes:
    """`-m tcp --sport N` or `--dport N`; 0: any port."""
    ends = [end for port in (source, destination) for end in ((port, port) if port else (0, 0xFFFF))]
    return nft.compatible("match", name, 0, struct.pack("=4H8x", *ends))


def _target(name: str, revision: int, info: bytes) -> bytes:
    return nft.compatible("target", name, revision, info.ljust(len(info) + 7 & ~7, b"\0"))

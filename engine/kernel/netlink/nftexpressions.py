"""Encodes the expressions of an nf_tables rule (loads, comparisons, lookups, address translation) and its verdicts.

Pure. An expression reads the registers that earlier expressions of its rule have filled. There are sixteen registers of
4 bytes, and a longer value takes several in a row. Where a comparison or a lookup fails, the rule ends, and the kernel
tries the next one. Layout: linux/netfilter/nf_tables.h.
"""

import sys

from engine.kernel.netlink.message import attribute, be32, nested, text

REGISTER = 8
"""The number of the first register of 4 bytes (NFT_REG32_00)."""

IPV4, IPV6 = 2, 10
"""Protocol families (NFPROTO_, the same numbers as AF_)."""
ESTABLISHED, RELATED = 2, 4
"""States of a connection (NFT_CT_STATE); they can be combined."""
DESTINATION_CHANGED = 32
"""Bit of a connection's status: its destination was translated (IPS_DST_NAT)."""
LOCAL, BROADCAST, MULTICAST = 2, 3, 5
"""Kinds of address, numbered as in the routing tables (RTN_)."""

EQUAL, DIFFERENT = 0, 1

_ELEMENT = 1
_VERDICT_REGISTER = 0
_VALUE, _VERDICT = 1, 2
_DROP, _ACCEPT, _JUMP, _GOTO = 0, 1, -3, -4
_META = {
    "mark": 3,
    "iif": 4,
    "oif": 5,
    "iifname": 6,
    "oifname": 7,
    "nfproto": 15,
    "l4proto": 16,
    "iifkind": 26,
    "oifkind": 27,
}
_CT_STATE, _CT_DIRECTION, _CT_STATUS, _CT_MARK = 0, 1, 2, 3
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_SOURCE = {IPV4: (12, 4), IPV6: (8, 16)}
_DESTINATION = {IPV4: (16, 4), IPV6: (24, 16)}
_INTERNET = 1  # the kind of checksum that IP, TCP and UDP use
_FIB_ADDRTYPE, _FIB_SADDR, _FIB_DADDR, _FIB_IIF = 3, 1, 2, 8
_SNAT, _DNAT = 0, 1
_HOST_ORDER = sys.byteorder


def _expression(name: str, *attributes: bytes) -> bytes:
    return nested(_ELEMENT, text(1, name), nested(2, *attributes))


def value(data: bytes) -> bytes:
    """Constant data, encoded as it stands inside an attribute."""
    return attribute(_VALUE, data)


def _verdict(code: int, chain: str = "") -> bytes:
    return nested(_VERDICT, be32(1, code & 0xFFFFFFFF), *([text(2, chain)] if chain else []))


ACCEPT = _verdict(_ACCEPT)
"""A verdict, for `decide` or as the data of a map: this hook of this table is finished, and the packet goes on."""
DROP = _verdict(_DROP)


def goto(chain: str) -> bytes:
    """The verdict that continues with another chain's rules and does not return to this chain."""
    return _verdict(_GOTO, chain)


def jump(chain: str) -> bytes:
    """The verdict that continues with another chain's rules, and then with the next rule of this chain."""
    return _verdict(_JUMP, chain)


def decide(verdict: bytes) -> bytes:
    """End the rule with a verdict."""
    return _expression("immediate", be32(1, _VERDICT_REGISTER), nested(2, verdict))


def load(data: bytes, register: int = 0) -> bytes:
    """Load constant data into registers."""
    return _expression("immediate", be32(1, REGISTER + register), nested(2, value(data)))


def meta(key: str, register: int = 0) -> bytes:
    """Load a fact that the kernel knows beside the packet: `iifname`, `l4proto`, ..."""
    return _expression("meta", be32(1, REGISTER + register), be32(2, _META[key]))


def payload(base: int, offset: int, length: int, register: int = 0) -> bytes:
    """Load bytes of the packet itself. base: which header they are in; offset, length: in bytes"""
    return _expression("payload", be32(1, REGISTER + register), be32(2, base), be32(3, offset), be32(4, length))


def source(family: int, register: int = 0) -> bytes:
    """Load the source address; the rule must have checked before that the packet is of this family."""
    return payload(_NETWORK_HEADER, *_SOURCE[family], register)


def destination(family: int, register: int = 0) -> bytes:
    """Load the destination address; the rule must have checked before that the packet is of this family."""
    return payload(_NETWORK_HEADER, *_DESTINATION[family], register)


def port(register: int = 0) -> bytes:
    """Load the destination port, which TCP, UDP and SCTP have in the same place."""
    return payload(_TRANSPORT_HEADER, 2, 2, register)


def compare(data: bytes, operation: int = EQUAL, register: int = 0) -> bytes:
    """Go on only where the loaded value equals this data (with DIFFERENT: does not)."""
    return _expression("cmp", be32(1, REGISTER + register), be32(2, operation), nested(3, value(data)))


def marked(mark: int, mask: int) -> bytes:
    """Go on only where the packet's firewall mark has these bits, of those in the mask."""
    wanted, kept = (number.to_bytes(4, _HOST_ORDER) for number in (mark & mask, mask))
    return meta("mark") + masked(kept) + compare(wanted)


def masked(mask: bytes, register: int = 0) -> bytes:
    """Keep only the bits of the mask in the loaded value."""
    length = len(mask)
    return _expression(
        "bitwise",
        be32(1, REGISTER + register),
        be32(2, REGISTER + register),
        be32(3, length),
        nested(4, value(mask)),
        nested(5, value(bytes(length))),
    )


def lookup(name: str, register: int = 0, result: int | None = None, *, absent: bool = False) -> bytes:
    """Go on only where the loaded value is in the set (absent: is not); of a map, put its data into `result`."""
    attributes = [text(1, name), be32(2, REGISTER + register)]
    if result is not None:
        attributes.append(be32(3, REGISTER + result))
    if absent:
        attributes.append(be32(5, 1))
    return _expression("lookup", *attributes)


def verdict_of(name: str, register: int = 0) -> bytes:
    """Apply the verdict that a verdict map has for the loaded value."""
    return _expression("lookup", text(1, name), be32(2, REGISTER + register), be32(3, _VERDICT_REGISTER))


def family(number: int) -> bytes:
    """Go on only with packets of this family."""
    return meta("nfproto") + compare(bytes((number,)))


def interface(key: str, name: str, operation: int = EQUAL) -> bytes:
    """Go on only where `iifname` or `oifname` is (with DIFFERENT: is not) this name."""
    return meta(key) + compare(name.encode("utf-8", "surrogateescape").ljust(16, b"\0"), operation)


def state(states: int) -> bytes:
    """Go on only where the packet's connection is in one of these states."""
    return _tracked(_CT_STATE, states)


def status(bits: int) -> bytes:
    """Go on only where the status of the packet's connection has one of these bits."""
    return _tracked(_CT_STATUS, bits)


def _tracked(key: int, bits: int) -> bytes:
    loaded = _expression("ct", be32(1, REGISTER), be32(2, key))
    return loaded + masked(bits.to_bytes(4, _HOST_ORDER)) + compare(bytes(4), DIFFERENT)


def address_kind(kind: int, *, of_interface: bool = False) -> bytes:
    """Go on only where the destination is of this kind: for the whole host, or for the interface by which the packet
    came in.
    """
    flags = _FIB_DADDR | (_FIB_IIF if of_interface else 0)
    loaded = _expression("fib", be32(1, REGISTER), be32(2, _FIB_ADDRTYPE), be32(3, flags))
    return loaded + compare(kind.to_bytes(4, _HOST_ORDER))


def sent_for_another() -> bytes:
    """Go on only where the source is no address of this host."""
    loaded = _expression("fib", be32(1, REGISTER), be32(2, _FIB_ADDRTYPE), be32(3, _FIB_SADDR))
    return loaded + compare(LOCAL.to_bytes(4, _HOST_ORDER), DIFFERENT)


def answer() -> bytes:
    """Go on only where the packet goes back to who has begun its connection."""
    return _expression("ct", be32(1, REGISTER), be32(2, _CT_DIRECTION)) + compare(b"\1")


def connection_marked(mark: int) -> bytes:
    """Go on only where the packet's connection has this mark."""
    loaded = _expression("ct", be32(1, REGISTER), be32(2, _CT_MARK))
    return loaded + compare(mark.to_bytes(4, _HOST_ORDER))


def mark_connection(mark: int) -> bytes:
    """Give the packet's connection a mark."""
    return load(mark.to_bytes(4, _HOST_ORDER)) + _expression("ct", be32(2, _CT_MARK), be32(4, REGISTER))


def mark_packet(mark: int) -> bytes:
    """Give the packet a firewall mark, which rules of routing see too."""
    return load(mark.to_bytes(4, _HOST_ORDER)) + _expression("meta", be32(2, _META["mark"]), be32(3, REGISTER))


def rewrite(offset: int, length: int, checksum: int, register: int = 0) -> bytes:
    """Write the loaded value over bytes of the transport header, and correct its checksum, which stands at offset
    `checksum`.
    """
    place = be32(2, _TRANSPORT_HEADER), be32(3, offset), be32(4, length)
    return _expression("payload", *place, be32(5, REGISTER + register), be32(6, _INTERNET), be32(7, checksum))


def lead_to(number: int, address: int, port: int) -> bytes:
    """Translate the destination (DNAT) to the address and the port in these registers. number: the family"""
    return _translation(_DNAT, number, address, be32(5, REGISTER + port))


def come_from(number: int, address: int) -> bytes:
    """Translate the source (SNAT) to the address in this register. number: the family"""
    return _translation(_SNAT, number, address)


def _translation(kind: int, number: int, address: int, *more: bytes) -> bytes:
    return _expression("nat", be32(1, kind), be32(2, number), be32(3, REGISTER + address), *more)


def compatible(kind: str, name: str, revision: int, info: bytes) -> bytes:
    """A `match` or `target` of iptables, by nft_compat. info: its own struct, a multiple of 8 bytes long"""
    return _expression(kind, text(1, name), be32(2, revision), attribute(3, info))


MASQUERADE = _expression("masq")
"""Change the source to the address of the interface that the packet leaves by."""
COUNTER = _expression("counter")
"""Count the packets that come so far in the rule, as each rule of iptables does."""
DO_NOT_TRACK = _expression("notrack")
"""Have the packet belong to no connection."""

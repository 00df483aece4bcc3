"""Encodes nf_tables requests for tables, chains, rules, sets and their elements, and commits a batch of them in one
transaction.

Pure, except for `commit`, `present`, `keys` and `droppers`, which talk to the kernel over a socket of the protocol
NETFILTER. All tables are of the family `inet`: one for IPv4 and IPv6. The kernel carries out a batch wholly or not at
all. `nftexpressions` makes the contents of a rule. Layout: linux/netfilter/nf_tables.h.
"""

import errno
import struct
from collections.abc import Iterable, Sequence

from engine.dataclass import dataclass
from engine.kernel.netlink import message
from engine.kernel.netlink.message import Request, attribute, be32, nested, text
from engine.kernel.netlink.nftexpressions import value
from engine.kernel.netlink.socket import Netlink, Refused

NETFILTER = 12
"""The netlink protocol of all these messages."""
PREROUTING, INPUT, FORWARD, OUTPUT, POSTROUTING = range(5)
"""Hooks: the points on a packet's way at which the kernel runs a base chain."""
INTERVAL, MAP = 0x4, 0x8
"""Flags of a set. INTERVAL: its keys are the beginnings and ends of ranges; MAP: its elements have data."""

# Types of values, numbered as the program nft does; the kernel gives them no meaning.
ADDRESS4, ADDRESS6, PROTOCOL, SERVICE, INTERFACE_INDEX, INTERFACE = 7, 8, 12, 13, 20, 41
VERDICT = 0xFFFFFF00
_LENGTHS = {ADDRESS4: 4, ADDRESS6: 16, PROTOCOL: 1, SERVICE: 2, INTERFACE_INDEX: 4, INTERFACE: 16, VERDICT: 16}
_TYPE_BITS = 6
_HOST_ORDER = ((INTERFACE,), (INTERFACE_INDEX,))
# user data that the program nft adds, to list such a set in the right byte order
_KEYS_IN_HOST_ORDER = struct.pack("=BBI", 0, 4, 1)

_SUBSYSTEM = 10
_INET = 1
_IP_FAMILIES = {1: "inet", 2: "ip", 10: "ip6"}
_BEGIN, _END = 16, 17
_NEW_TABLE, _GET_TABLE, _DELETE_TABLE = 0, 1, 2
_NEW_CHAIN, _GET_CHAIN = 3, 4
_NEW_RULE = 6
_NEW_SET = 9
_NEW_ELEMENT, _GET_ELEMENT, _DELETE_ELEMENT = 12, 13, 14
_FAMILY = bytes((_INET, 0, 0, 0))
_WHOLE_BATCH = bytes((0, 0, 0, _SUBSYSTEM))
_NO_SUBSYSTEM = (errno.EINVAL, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)
_LIST_ELEMENT = 1
_RANGE_END = 1
_MOST_AT_ONCE = 60_000  # bytes of elements in one message: the length of an attribute has 16 bits


@dataclass(frozen=True, slots=True)
class Set:
    """The declaration of a set or map.

    key, data: the types of which its keys and its data are made, each in registers of its own; data is empty for a set
    """

    name: str
    key: tuple[int, ...]
    data: tuple[int, ...] = ()
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a set or map.

    of: the name of that set
    key: its parts one after the other, each padded to 4 bytes; data: bytes, or a verdict of `nftexpressions`
    end: True in a set of intervals where a range ends, before this key
    """

    of: str
    key: bytes
    data: bytes = b""
    verdict: bytes = b""
    end: bool = False


def padded(*parts: bytes) -> bytes:
    """Several values as one key (or data), in which each value begins a new register."""
    return b"".join(part + bytes(-len(part) & 3) for part in parts)


def new_table(table: str) -> Request:
    """Make a table; an existing one is kept."""
    return _message(_NEW_TABLE, message.CREATE, text(1, table))


def delete_table(table: str) -> Request:
    """Delete a table with its contents; if it does not exist, the kernel refuses the batch (ENOENT)."""
    return _message(_DELETE_TABLE, 0, text(1, table))


def new_chain(table: str, chain: str) -> Request:
    """Make a chain to which rules jump; an existing one is kept."""
    return _message(_NEW_CHAIN, message.CREATE, text(1, table), text(3, chain))


def new_base_chain(table: str, chain: str, kind: str, hook: int, priority: int) -> Request:
    """Make a chain that the kernel runs at a hook. kind: `filter` or `nat`; packets that reach its end are accepted."""
    place = nested(4, be32(1, hook), be32(2, priority & 0xFFFFFFFF))
    return _message(_NEW_CHAIN, message.CREATE, text(1, table), text(3, chain), place, text(7, kind), be32(5, 1))


def new_rule(table: str, chain: str, *expressions: bytes) -> Request:
    """Add a rule at the end of a chain."""
    return _message(_NEW_RULE, message.CREATE | message.APPEND, text(1, table), text(2, chain), nested(4, *expressions))


def new_set(table: str, declared: Set, number: int) -> Request:
    """Make a set. number: an id that no other set of the batch has"""
    parts = [text(1, table), text(2, declared.name), be32(3, declared.flags | (MAP if declared.data else 0))]
    parts += [be32(4, _type(declared.key)), be32(5, _length(declared.key))]
    if declared.data:
        parts.append(be32(6, VERDICT if declared.data == (VERDICT,) else _type(declared.data)))
        parts.append(be32(7, _length(declared.data)))
    if declared.key in _HOST_ORDER:
        parts.append(attribute(13, _KEYS_IN_HOST_ORDER))
    return _message(_NEW_SET, message.CREATE, *parts, be32(10, number))


def _type(parts: tuple[int, ...]) -> int:
    number = 0
    for part in parts:
        number = number << _TYPE_BITS | part
    return number


def _length(parts: tuple[int, ...]) -> int:
    if len(parts) == 1:
        return _LENGTHS[parts[0]]
    return sum((_LENGTHS[part] + 3) & ~3 for part in parts)


def new_elements(table: str, elements: Iterable[Element]) -> list[Request]:
    """Put elements into their sets; an existing element with the same data is no failure."""
    return _elements(_NEW_ELEMENT, message.CREATE, table, elements, whole=True)


def delete_elements(table: str, elements: Iterable[Element]) -> list[Request]:
    """Take elements out of their sets; if one does not exist, the kernel refuses the batch (ENOENT)."""
    return _elements(_DELETE_ELEMENT, 0, table, elements, whole=False)


def _elements(kind: int, flags: int, table: str, elements: Iterable[Element], whole: bool) -> list[Request]:
    by_set: dict[str, list[bytes]] = {}
    for element in elements:
        by_set.setdefault(element.of, []).append(_element(element, whole))
    requests = []
    for name, encoded in by_set.items():
        while encoded:
            taken, size = 0, 0
            while taken < len(encoded) and size + len(encoded[taken]) <= _MOST_AT_ONCE:
                size += len(encoded[taken])
                taken += 1
            requests.append(_message(kind, flags, text(1, table), text(2, name), nested(3, *encoded[:taken])))
            del encoded[:taken]
    return requests


def _element(element: Element, whole: bool) -> bytes:
    parts = [nested(1, value(element.key))]
    if whole and element.verdict:
        parts.append(nested(2, element.verdict))
    elif whole and element.data:
        parts.append(nested(2, value(element.data)))
    if element.end:
        parts.append(be32(3, _RANGE_END))
    return nested(_LIST_ELEMENT, *parts)


def _message(kind: int, flags: int, *attributes: bytes) -> Request:
    return _SUBSYSTEM << 8 | kind, flags, _FAMILY + b"".join(attributes)


def batch(requests: Sequence[Request]) -> list[Request]:
    """The requests as one batch: the kernel carries out all of them or none."""
    return [(_BEGIN, 0, _WHOLE_BATCH), *requests, (_END, 0, _WHOLE_BATCH)]


def commit(netlink: Netlink, requests: Sequence[Request]) -> None:
    """Have the kernel carry out all of the requests or none. Raises Refused (its `index`: of `requests`), OSError.

    Keep the socket open for later commits: its close waits until the kernel has freed all that was deleted, some 10 ms.
    """
    try:
        # The acknowledgement is asked for the last request itself: older kernels do not answer the end of a batch.
        netlink.send(batch(requests), acknowledged=len(requests))
    except Refused as error:
        error.index -= 1
        raise


def present(netlink: Netlink, table: str) -> bool:
    """Whether the kernel has nf_tables at all; `table` is the name of any table. Raises OSError."""
    try:
        netlink.ask(_SUBSYSTEM << 8 | _GET_TABLE, _FAMILY + text(1, table))
    except Refused as error:
        # nfnetlink refuses messages to a subsystem that it does not know; nf_tables itself does not know the table.
        return error.errno not in _NO_SUBSYSTEM
    return True


def keys(netlink: Netlink, table: str, name: str) -> list[bytes] | None:
    """The keys of a set as the kernel has it now; None where there is no such set. Raises OSError."""
    try:
        answers = netlink.dump(_SUBSYSTEM << 8 | _GET_ELEMENT, _FAMILY + text(1, table) + text(2, name))
    except Refused as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    found = []
    for answer in answers:
        elements = message.attributes(answer.payload, len(_FAMILY)).get(3, b"")
        for _, element in message.listed(elements):
            found.append(message.attributes(message.attributes(element)[1])[1])
    return found


def droppers(netlink: Netlink, hook: int) -> list[str]:
    """The base chains at a hook that drop what they do not accept, whoever made them, of the families for IP. Raises
    OSError.

    As words: `chain FORWARD of table ip filter`.
    """
    found = []
    for answer in netlink.dump(_SUBSYSTEM << 8 | _GET_CHAIN, bytes(4)):
        family = _IP_FAMILIES.get(answer.payload[0])
        parts = message.attributes(answer.payload, 4)
        place = message.attributes(parts.get(4, b"")).get(1)
        if family and place == hook.to_bytes(4, "big") and parts.get(5) == bytes(4):
            table, chain = (parts[kind].rstrip(b"\0").decode("utf-8", "replace") for kind in (1, 3))
            found.append(f"chain {chain} of table {family} {table}")
    return found

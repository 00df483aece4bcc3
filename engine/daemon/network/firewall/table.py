"""The fixed part of the engine's nf_tables table: its sets, maps and base chains, the same for any networks.

Pure. The rules here never change; only elements do. A network adds chains of its own and a few elements that lead to
them (see `rules`). A published port adds only elements. So neither needs to know what else is in the table. The way of
a packet:

    raw          before tracking: what stays within one bridge is not tracked; no container reaches the host's
                 loopback
    prerouting   what comes to a published port of the host is led to the container
    output       the same for what the host itself sends
    forward      traffic within one bridge is accepted, with icc off only what `closed` lets pass; all other traffic of
                 an internal bridge is dropped; what belongs to an accepted connection is accepted; into a bridge goes
                 only what was led there
    input        an internal network reaches no more of the host than the bridge's own address, and there no port
                 that the userland proxy carries
    postrouting  what leaves its bridge gets the host's address, and so does what could not be answered otherwise

An accepted packet still passes the tables of other programs, but a dropped one is gone. So the table drops only what
concerns the engine's own bridges, and what the host forwards because the engine has switched that on (`guard`).
"""

from engine.kernel.netlink import nftables
from engine.kernel.netlink import nftexpressions as nft
from engine.kernel.netlink.message import Request
from engine.kernel.netlink.nftables import (
    ADDRESS4,
    ADDRESS6,
    INTERFACE,
    PROTOCOL,
    SERVICE,
    VERDICT,
    Set,
)

FAMILIES = (nft.IPV4, nft.IPV6)
_ADDRESS = {nft.IPV4: ADDRESS4, nft.IPV6: ADDRESS6}
_DIGIT = {nft.IPV4: "4", nft.IPV6: "6"}
_WIDTH = {nft.IPV4: 1, nft.IPV6: 4}  # how many registers an address takes

BRIDGES, INTERNAL = "bridges", "internal"
WITHIN, ARRIVING, INCOMING = "within", "arriving", "incoming"
CLOSED, PUBLISH, INWARD = "closed", "publish", "inward"
ICMP = {nft.IPV4: 1, nft.IPV6: 58}


def named(name: str, family: int) -> str:
    """The name of a set or chain that exists once for each family: `published4`, `published6`."""
    return name + _DIGIT[family]


def _sets() -> list[Set]:
    found = [
        Set(BRIDGES, (INTERFACE,)),
        Set(INTERNAL, (INTERFACE,)),
        Set(WITHIN, (INTERFACE, INTERFACE), (VERDICT,)),
        Set(ARRIVING, (INTERFACE,), (VERDICT,)),
        Set(INCOMING, (INTERFACE,), (VERDICT,)),
    ]
    for family, address in _ADDRESS.items():
        found += [
            Set(named("sources", family), (address,), (VERDICT,), nftables.INTERVAL),
            Set(named("published", family), (PROTOCOL, address, SERVICE), (address, SERVICE)),
            Set(named("everywhere", family), (PROTOCOL, SERVICE), (address, SERVICE)),
            Set(named("opened", family), (PROTOCOL, address, SERVICE)),
            Set(named("proxied", family), (PROTOCOL, SERVICE)),
            Set(named("links", family), (address, PROTOCOL, address, SERVICE)),
        ]
    return found


SETS = _sets()

LOOPBACK4 = nft.masked(bytes((255, 0, 0, 0))) + nft.compare(bytes((127, 0, 0, 0)))
"""Go on only where the IPv4 address that is loaded is one of the host's own loopback; LOOPBACK6: IPv6's."""
LOOPBACK6 = nft.compare(bytes(15) + b"\1")
LOOPBACK = {nft.IPV4: LOOPBACK4, nft.IPV6: LOOPBACK6}
_LINK_LOCAL6 = nft.masked(b"\xff\xc0" + bytes(14)) + nft.compare(b"\xfe\x80" + bytes(14))

_ANSWERS = nft.state(nft.ESTABLISHED | nft.RELATED)
_LED_HERE = nft.status(nft.DESTINATION_CHANGED)

Rules = list[tuple[str, bytes]]
"""Rules in their order: the chain, and the expressions."""


def destination_key(family: int) -> bytes:
    """Load protocol, destination and port into registers: the key of `published` and `opened`."""
    return nft.meta("l4proto", 0) + nft.destination(family, 1) + nft.port(1 + _WIDTH[family])


def _link_key(family: int) -> bytes:
    width = _WIDTH[family]
    loaded = nft.source(family, 0) + nft.meta("l4proto", width) + nft.destination(family, width + 1)
    return loaded + nft.port(2 * width + 1)


def _publish() -> Rules:
    rules = []
    for family in FAMILIES:
        width = _WIDTH[family]
        result = 8 if family == nft.IPV6 else 4  # after the registers of the longest key
        led = nft.lead_to(family, result, result + width)
        for key, name in (
            (destination_key(family), "published"),
            (nft.meta("l4proto", 0) + nft.port(1), "everywhere"),
        ):
            looked_up = nft.lookup(named(name, family), 0, result)
            rules.append((PUBLISH, nft.family(family) + key + looked_up + led))
    return rules


def _prerouting() -> Rules:
    rules = []
    for family in FAMILIES:
        # Only the host itself may use a published port on its loopback. A packet from another interface to such an
        # address is accepted here, so that it is not led to a container.
        mine = nft.family(family) + nft.destination(family) + LOOPBACK[family]
        rules.append(("prerouting", nft.interface("iifname", "lo", nft.DIFFERENT) + mine + nft.decide(nft.ACCEPT)))
    rules.append(_link_local("prerouting"))
    rules.append(("prerouting", nft.address_kind(nft.LOCAL) + nft.decide(nft.goto(PUBLISH))))
    return rules


def _link_local(chain: str) -> tuple[str, bytes]:
    # Who asks for a link-local address has one too, and no packet from there is forwarded. So it goes to the userland
    # proxy.
    mine = nft.family(nft.IPV6) + nft.destination(nft.IPV6) + _LINK_LOCAL6
    return chain, mine + nft.decide(nft.ACCEPT)


def _output() -> Rules:
    # A packet to ::1 cannot be led to a container: the kernel takes no answer to that address from another interface.
    # So it goes to the userland proxy. Without that the connection is refused at once, and clients go on to 127.0.0.1.
    mine = nft.family(nft.IPV6) + nft.destination(nft.IPV6) + LOOPBACK6
    return [
        ("output", mine + nft.decide(nft.ACCEPT)),
        _link_local("output"),
        ("output", nft.address_kind(nft.LOCAL) + nft.decide(nft.goto(PUBLISH))),
    ]


def _postrouting() -> Rules:
    # A packet that the host sends from its loopback has a source address that no container could answer to.
    own = nft.family(nft.IPV4) + nft.source(nft.IPV4) + LOOPBACK4
    rules = [("postrouting", own + nft.meta("oifname") + nft.lookup(BRIDGES) + nft.MASQUERADE)]
    for family in FAMILIES:
        looked_up = nft.verdict_of(named("sources", family))
        rules.append(("postrouting", nft.family(family) + nft.source(family) + looked_up))
    return rules


def _forward() -> Rules:
    return [
        ("forward", nft.meta("iifname", 0) + nft.meta("oifname", 4) + nft.verdict_of(WITHIN)),
        # These stand before the rule for answers. Otherwise a container that uses another one's address could send
        # packets out in the other one's connections.
        ("forward", nft.meta("iifname") + nft.lookup(INTERNAL) + nft.decide(nft.DROP)),
        ("forward", nft.meta("oifname") + nft.lookup(INTERNAL) + nft.decide(nft.DROP)),
        ("forward", _ANSWERS + nft.decide(nft.ACCEPT)),
        ("forward", nft.meta("oifname") + nft.verdict_of(INCOMING)),
        ("forward", nft.meta("iifname") + nft.lookup(BRIDGES) + nft.decide(nft.ACCEPT)),
    ]


def _closed() -> Rules:
    rules = [(CLOSED, _ANSWERS + nft.decide(nft.ACCEPT)), (CLOSED, _LED_HERE + nft.decide(nft.ACCEPT))]
    for family in FAMILIES:
        allowed = nft.lookup(named("links", family)) + nft.decide(nft.ACCEPT)
        rules.append((CLOSED, nft.family(family) + _link_key(family) + allowed))
    for kind in _NEIGHBOURS:
        # Without neighbour discovery, linked containers would not find each other's MAC address over IPv6. IPv4 uses
        # ARP, which does not pass here.
        seen = nft.family(nft.IPV6) + nft.meta("l4proto") + nft.compare(bytes((ICMP[nft.IPV6],)))
        rules.append((CLOSED, seen + nft.payload(2, 0, 1) + nft.compare(bytes((kind,))) + nft.decide(nft.ACCEPT)))
    return [*rules, (CLOSED, nft.decide(nft.DROP))]


_NEIGHBOURS = (135, 136)


def _input() -> Rules:
    rules = [
        ("input", nft.meta("iifname") + nft.lookup(INTERNAL) + nft.decide(nft.goto(INWARD))),
        (INWARD, _ANSWERS + nft.decide(nft.ACCEPT)),
    ]
    for family in FAMILIES:
        # The userland proxy would carry a container of an internal network into other networks.
        carried = nft.meta("l4proto", 0) + nft.port(1) + nft.lookup(named("proxied", family))
        rules.append((INWARD, nft.family(family) + carried + nft.decide(nft.DROP)))
    for kind in (nft.LOCAL, nft.BROADCAST, nft.MULTICAST):
        rules.append((INWARD, nft.address_kind(kind, of_interface=True) + nft.decide(nft.ACCEPT)))
    return [*rules, (INWARD, nft.decide(nft.DROP))]


BASE = {
    "raw": ("filter", nftables.PREROUTING, -300),
    "prerouting": ("nat", nftables.PREROUTING, -100),
    "output": ("nat", nftables.OUTPUT, -100),
    "forward": ("filter", nftables.FORWARD, 0),
    "input": ("filter", nftables.INPUT, 0),
    "postrouting": ("nat", nftables.POSTROUTING, 100),
}
"""The chains that the kernel asks: kind, hook, priority."""


def empty(table: str, families: tuple[int, ...]) -> list[Request]:
    """The requests that make the table without any network, and replace an existing one.

    families: those that the engine may have rules for
    """
    made = [nftables.new_table(table), nftables.delete_table(table), nftables.new_table(table)]
    made += [nftables.new_set(table, declared, number) for number, declared in enumerate(SETS, 1)]
    made += [nftables.new_base_chain(table, name, *place) for name, place in BASE.items()]
    made += [nftables.new_chain(table, name) for name in (PUBLISH, CLOSED, INWARD)]
    for family in FAMILIES:
        if family not in families:
            made += [nftables.new_rule(table, name, nft.family(family) + nft.decide(nft.ACCEPT)) for name in BASE]
    raw = [("raw", nft.meta("iifname") + nft.verdict_of(ARRIVING))]
    rules = [
        *raw,
        *_publish(),
        *_prerouting(),
        *_output(),
        *_closed(),
        *_forward(),
        *_input(),
        *_postrouting(),
    ]
    return [*made, *(nftables.new_rule(table, chain, expressions) for chain, expressions in rules)]


def gone(table: str) -> list[Request]:
    """The requests that delete the table; it need not exist."""
    return [nftables.new_table(table), nftables.delete_table(table)]

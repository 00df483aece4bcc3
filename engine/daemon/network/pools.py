"""The daemon's address pools: chooses a free subnet for a network whose client has named none.

Pure. The subnet is the lowest piece of its pool that overlaps no other network of the engine, and nothing that the host
can reach already (see `surroundings`).
"""

import hashlib
from collections.abc import Iterable

from engine.daemon.network.addresses import BITS, Subnet
from engine.daemon.network.surroundings import Surroundings
from engine.dataclass import dataclass
from engine.errors import Invalid

# dockerd's pools: the base that is split, and the prefix length of the pieces.
DEFAULTS = (
    ("172.17.0.0/16", 16),
    ("172.18.0.0/16", 16),
    ("172.19.0.0/16", 16),
    ("172.20.0.0/14", 16),
    ("172.24.0.0/14", 16),
    ("172.28.0.0/14", 16),
    ("192.168.0.0/16", 20),
)
_LOCAL_BITS = 40  # the bits of an IPv6 unique local address that RFC 4193 wants chosen at random
_LOCAL_SHIFT = 80
_LOCAL_FIRST = 0xFD << 120
_LOCAL_BASE, _LOCAL_PIECE = 48, 64


@dataclass(frozen=True, slots=True)
class Source:
    """A pool: the base that is split, and the prefix length of the pieces."""

    base: Subnet
    bits: int


def sources(configured: Iterable[str], engine_id: str) -> tuple[Source, ...]:
    """The pools of a daemon, lowest first: `base,bits` as the settings have them, or else dockerd's.

    Where no pool is of IPv6, one of unique local addresses that belong to this daemon is added.
    """
    given = [Source(Subnet.parse(base), int(bits)) for base, bits in (text.split(",") for text in configured)]
    found = given or [Source(Subnet.parse(base), bits) for base, bits in DEFAULTS]
    if not any(source.base.version == 6 for source in found):
        found.append(Source(unique_local(engine_id), _LOCAL_PIECE))
    return tuple(sorted(found, key=lambda source: (source.base.version, source.base.first, source.base.bits)))


def unique_local(engine_id: str) -> Subnet:
    """The /48 of unique local addresses that belongs to this daemon; it is the same at every start."""
    digest = int.from_bytes(hashlib.sha256(engine_id.encode()).digest()[:8], "big")
    chosen = digest & ((1 << _LOCAL_BITS) - 1)
    return Subnet(6, _LOCAL_FIRST | chosen << _LOCAL_SHIFT, _LOCAL_BASE)


def choose(
    given: Iterable[Source], version: int, taken: Iterable[Subnet], around: Surroundings, bits: int = 0
) -> Subnet:
    """A piece that overlaps nothing in `taken`, the subnets of the engine's networks, nor what the host reaches.

    Subnets behind a gateway are avoided only as long as another piece is free: a host may have routes for half of the
    world. Those of idle bridges of other engines too: otherwise daemons that have ended would keep them for good.
    bits: the piece's prefix length, 0 for the pool's. Raises Invalid.
    """
    fitting = [source for source in given if source.base.version == version]
    if bits:
        fitting = [Source(source.base, bits) for source in fitting if source.base.bits <= bits <= BITS[version]]
    if not fitting:
        raise Invalid("invalid address pool")
    near = [*taken, *around.near]
    for avoided in ([*near, *around.far], near, [subnet for subnet in near if subnet not in around.idle]):
        in_the_way = sorted(
            (subnet for subnet in avoided if subnet.version == version), key=lambda subnet: subnet.first
        )
        for source in fitting:
            found = _lowest(source, in_the_way)
            if found is not None:
                return found
    raise Invalid("all predefined address pools have been fully subnetted")


def _lowest(source: Source, in_the_way: list[Subnet]) -> Subnet | None:
    size = 1 << BITS[source.base.version] - source.bits
    at = source.base.first
    for subnet in in_the_way:  # sorted by first address, so one pass is enough
        if subnet.first >= at + size:
            break
        if subnet.last >= at:
            at = subnet.last // size * size + size
    return Subnet(source.base.version, at, source.bits) if at + size - 1 <= source.base.last else None

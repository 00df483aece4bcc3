"""Allocates the addresses of a network's pools: which are taken, and which is next, the lowest free one.

Pure state in memory, made from the rows of networks and endpoints. `networks.Networks` owns it and guards it with its
lock. A caller that takes an address here writes the endpoint's row under the same lock, or releases the address.
"""

from collections.abc import Iterable

from engine.daemon.network.addresses import Subnet, parse_address, show_address
from engine.daemon.network.record import Pool
from engine.errors import EngineError, Forbidden, Invalid

_LARGEST_COUNT = 2**64 - 1  # the largest number that the API can carry


class Space:
    """The addresses of one pool.

    Some are taken from the start and never given to a container: an IPv4 subnet's first and last address (unless it has
    only two), an IPv6 subnet's first address, the gateway, and the auxiliary addresses.
    """

    def __init__(self, pool: Pool) -> None:
        """Raises Forbidden where the gateway or an auxiliary address is one of the others that are taken."""
        self.subnet = Subnet.parse(pool.subnet)
        self.range = Subnet.parse(pool.ip_range) if pool.ip_range else self.subnet
        self._taken: set[int] = set()
        self._lowest = self.range.first  # all lower addresses of the range are taken
        self._reserve()
        if pool.gateway:
            self.take(pool.gateway)
        for address in pool.aux.values():
            self.take(address)

    def _reserve(self) -> None:
        if self.subnet.version == 6 or self.subnet.size > 2:
            self._taken.add(self.subnet.first)
        if self.subnet.version == 4 and self.subnet.size > 2:
            self._taken.add(self.subnet.last)

    def holds(self, address: str) -> bool:
        """Whether an address is in the subnet."""
        version, number = parse_address(address)
        return version == self.subnet.version and number in self.subnet

    def take(self, address: str) -> None:
        """Take this very address. Raises Forbidden when it is taken, Invalid when it is no address of the subnet."""
        version, number = parse_address(address)
        if version != self.subnet.version or number not in self.subnet:
            raise Invalid("requested address is out of range")
        if number in self._taken:
            raise Forbidden("Address already in use")
        self._taken.add(number)

    def restore(self, address: str) -> None:
        """Mark an address of the subnet as taken, even if it is already."""
        self._taken.add(parse_address(address)[1])

    def take_lowest(self) -> str | None:
        """Take the lowest free address of the range; None when there is none."""
        last = self.range.last
        while self._lowest <= last and self._lowest in self._taken:
            self._lowest += 1
        if self._lowest > last:
            return None
        self._taken.add(self._lowest)
        return show_address(self.subnet.version, self._lowest)

    def release(self, address: str) -> None:
        """Make a taken address free again."""
        _, number = parse_address(address)
        self._taken.discard(number)
        if number in self.range:
            self._lowest = min(self._lowest, number)

    def status(self) -> dict[str, int]:
        """A SubnetStatus of the API."""
        used = sum(number in self.range for number in self._taken)
        return {
            "IPsInUse": min(len(self._taken), _LARGEST_COUNT),
            "DynamicIPsAvailable": min(self.range.size - used, _LARGEST_COUNT),
        }


class Addresses:
    """The addresses of one network: a `Space` for each of its pools."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self.spaces = [Space(pool) for pool in pools]

    def of(self, version: int) -> list[Space]:
        """The spaces of one version of IP, in the order of the pools."""
        return [space for space in self.spaces if space.subnet.version == version]

    def take(self, version: int, wanted: str, network: str) -> tuple[str, Space]:
        """Take the wanted address, or else the lowest free one of the first pool that has any.

        Returns it and its space.
        network: its name and id, for the text of the error. Raises Forbidden when the address is taken, Invalid when it
        is in no pool, EngineError when no pool has any left.
        """
        if wanted:
            for space in self.of(version):
                if space.holds(wanted):
                    space.take(wanted)
                    return wanted, space
            raise Invalid(f"invalid address {wanted}: It does not belong to any of this network's subnets")
        for space in self.of(version):
            found = space.take_lowest()
            if found is not None:
                return found, space
        raise EngineError(f"no available IPv{version} addresses on this network's address pools: {network}")

    def status(self) -> dict[str, dict[str, int]]:
        """How many addresses are taken and free: subnet → SubnetStatus of the API."""
        return {str(space.subnet): space.status() for space in self.spaces}

    def restore(self, *addresses: str) -> None:
        """Mark the addresses of an existing endpoint as taken; empty texts are ignored."""
        for address in filter(None, addresses):
            for space in self.spaces:
                if space.holds(address):
                    space.restore(address)

    def release(self, *addresses: str) -> None:
        """Make these addresses free; empty texts are ignored."""
        for address in filter(None, addresses):
            for space in self.spaces:
                if space.holds(address):
                    space.release(address)

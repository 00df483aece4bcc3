"""Arithmetic on IP addresses and subnets as integers: parsing and printing them, and tests of what lies within what.

Pure. The standard module ipaddress can do the same and more, but it would cost the daemon 0.4 MB for good.
"""

import socket

from engine.dataclass import dataclass

BITS = {4: 32, 6: 128}
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


def parse_address(text: str) -> tuple[int, int]:
    """(4 or 6, the address as a number). Raises ValueError, also for an address with a zone (`%eth0`)."""
    version = 6 if ":" in text else 4
    try:
        return version, int.from_bytes(socket.inet_pton(_FAMILIES[version], text), "big")
    except OSError as error:
        raise ValueError(f"not an IP address: {text}") from error


def show_address(version: int, number: int) -> str:
    """The address as its canonical text."""
    return socket.inet_ntop(_FAMILIES[version], number.to_bytes(BITS[version] // 8, "big"))


def canonical(text: str) -> str:
    """The canonical text of an address, which can be written in many ways. Raises ValueError."""
    return show_address(*parse_address(text))


@dataclass(frozen=True, slots=True)
class Subnet:
    """A block of addresses.

    version: 4 or 6; first: its lowest address, with no bit set after the prefix; bits: the prefix's length
    """

    version: int
    first: int
    bits: int

    @classmethod
    def parse(cls, text: str) -> "Subnet":
        """A subnet from its CIDR form; bits after the prefix are cleared. Raises ValueError."""
        address, slash, length = text.partition("/")
        version, number = parse_address(address)
        if not slash or not (length.isascii() and length.isdigit()) or len(length) > 3 or int(length) > BITS[version]:
            raise ValueError(f"not a subnet: {text}")
        return cls.around(version, number, int(length))

    @classmethod
    def around(cls, version: int, number: int, bits: int) -> "Subnet":
        """The subnet with a prefix of this length that contains an address."""
        behind = BITS[version] - bits
        return cls(version, number >> behind << behind, bits)

    @property
    def size(self) -> int:
        """How many addresses it has."""
        return 1 << BITS[self.version] - self.bits

    @property
    def last(self) -> int:
        """Its highest address."""
        return self.first + self.size - 1

    def __contains__(self, number: int) -> bool:
        return self.first <= number <= self.last

    def overlaps(self, other: "Subnet") -> bool:
        """Whether any address is in both."""
        return self.version == other.version and self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        return f"{show_address(self.version, self.first)}/{self.bits}"

"""Parsers and checks for the option values of network drivers (addresses, MTU, interface names, ...), as in docker.

Pure. A driver that takes options has a table OPTIONS, from an option's name to its kind in this module. An option in no
table is kept and shown, but has no effect, as with dockerd.
"""

import socket
from collections.abc import Callable, Mapping

from engine.errors import Invalid, SystemFailure
from engine.literals import boolean, integer, quoted

MTU = "com.docker.network.driver.mtu"
PREFIX = "com.docker.network.container_iface_prefix"
ANNOUNCEMENTS = "com.docker.network.advertise_addr_nmsgs"
_ANNOUNCEMENTS = (
    (ANNOUNCEMENTS, (0, 3), "an integer"),
    ("com.docker.network.advertise_addr_ms", (100, 2000), "integer milliseconds"),
)
HIGHEST_MTU = 65535  # the limit of a bridge and of a veth pair (linux/if_ether.h, ETH_MAX_MTU)
NAME_BYTES = 15

_GATEWAY_MODES = frozenset(("nat", "nat-unprotected", "routed", "isolated"))

Kind = Callable[[str], object]
"""An option's text → its value; raises Invalid with dockerd's reason."""


def address(text: str) -> str:
    """An IP address of either family."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):  # ValueError: a zero byte
            continue
        return text
    raise Invalid("nil ip")


def address4(text: str) -> str:
    """An IPv4 address."""
    if ":" in address(text):
        raise Invalid("not an IPv4 address")
    return text


def address6(text: str) -> str:
    """An IPv6 address."""
    if ":" not in address(text):
        raise Invalid("not an IPv6 address")
    return text


def interfaces(text: str) -> tuple[str, ...]:
    """Names of the host's interfaces, separated by colons."""
    names = tuple(filter(None, text.split(":")))
    for name in names:
        check_name(name)
    return names


def gateway_mode(text: str) -> str:
    """How a bridge connects its containers with the outside: nat, nat-unprotected, routed or isolated."""
    if text in _GATEWAY_MODES:
        return text
    raise Invalid(f"unknown gateway mode {text}")


def words(text: str) -> str:
    """Any text."""
    return text


def check(table: Mapping[str, Kind], given: Mapping[str, str]) -> None:
    """Raise Invalid for the first given option that is in the table and is not of its kind."""
    for name, text in given.items():
        if name in table:
            try:
                table[name](text)
            except Invalid as error:
                raise Invalid(f"failed to parse {name} value: {text} ({error})") from None


def check_mtu(given: Mapping[str, str]) -> None:
    """Raise Invalid for an MTU that no link can have."""
    mtu = mtu_of(given)
    if mtu < 0 or mtu > HIGHEST_MTU:
        raise Invalid(f"invalid MTU number: {mtu}")


def check_announcements(given: Mapping[str, str]) -> None:
    """Raise SystemFailure, as dockerd does, for numbers of announcements or milliseconds that it does not take."""
    for name, (low, high), unit in _ANNOUNCEMENTS:
        if name not in given:
            continue
        try:
            number = integer(given[name])
        except Invalid:
            raise SystemFailure(f"value for option {name} {quoted(given[name])} must be {unit}") from None
        if not low <= number <= high:
            raise SystemFailure(f"{name} must be in the range {low} to {high}")


def announces(given: Mapping[str, str]) -> bool:
    """Whether new addresses are announced. The options have been checked."""
    return integer(given.get(ANNOUNCEMENTS, "1")) > 0


def mtu_of(given: Mapping[str, str]) -> int:
    """The MTU that the options ask for, 0 for none. The options have been checked."""
    return integer(given.get(MTU, "0"))


def prefix_of(given: Mapping[str, str]) -> str:
    """The prefix of the names of the containers' interfaces, by default `eth`."""
    return given.get(PREFIX) or "eth"


def switched_on(given: Mapping[str, str], name: str, otherwise: bool = False) -> bool:
    """The value of a boolean option, or `otherwise`. The options have been checked."""
    return boolean(given[name]) if name in given else otherwise


def check_name(name: str) -> None:
    """Raise Invalid for a name that the kernel does not take as a link's name."""
    strange = any(letter.isspace() or letter in "/:%\0" for letter in name)
    if strange or name in (".", "..", "lo") or not 0 < len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES:
        rule = f"1 to {NAME_BYTES} bytes without space, / : or %, and not lo"
        raise Invalid(f'invalid name of a network interface: "{name}": {rule}')

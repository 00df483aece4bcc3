"""Declares the daemon's options about networks, with their defaults, checks and help; `every` includes them.

Names, keys in the configuration file and rules are dockerd's. Pure; checks that need a look at the host are made where
the value is used.
"""

import json
import socket
from collections.abc import Callable

from engine.commandline import Given, Option, Value, given_texts
from engine.errors import Invalid
from engine.literals import natural, quoted
from engine.settings import configfile

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_LENGTHS = {4: 32, 6: 128}
_LINK_LOCAL = 0xFE80 << 112  # fe80::, whose first 64 bits every link has
_HIGHEST_MTU = 65535
_POOL = frozenset({"base", "size"})  # the members of an address pool in daemon.json
_ALL_BITS = 2**32 - 1
_NAME_BYTES = 15  # of a link's name: IFNAMSIZ without the final zero


def _number(text: str) -> tuple[int, int]:
    """(4 or 6, the address as a number). Raises Invalid."""
    version = 6 if ":" in text else 4
    try:
        return version, int.from_bytes(socket.inet_pton(_FAMILIES[version], text), "big")
    except (OSError, ValueError) as error:
        raise Invalid(f"invalid IP address: {text}") from error


def is_ipv6(text: str) -> bool:
    """Whether a text is an IPv6 address, and nothing more."""
    try:
        return _number(text)[0] == 6
    except Invalid:
        return False


def _address(text: str) -> str:
    version, number = _number(text)
    return socket.inet_ntop(_FAMILIES[version], number.to_bytes(_LENGTHS[version] // 8, "big"))


def _address_of(version: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text and _number(text)[0] != version:
            raise Invalid(f"{text} is not an IPv{version} address")
        return _address(text) if text else ""

    return check


def _block(text: str) -> tuple[int, int, int]:
    """(4 or 6, the first address as a number, the prefix length) of a block in CIDR form. Raises Invalid."""
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()) or len(length) > 3:
        raise Invalid(f"invalid CIDR address: {text}")
    version, number = _number(address)
    if int(length) > _LENGTHS[version]:
        raise Invalid(f"invalid CIDR address: {text}")
    behind = _LENGTHS[version] - int(length)
    return version, number >> behind << behind, int(length)


def _block_of(version: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text and _block(text)[0] != version:
            raise Invalid(f"{text} is not an IPv{version} block")
        if not text:
            return ""
        address, _, length = text.partition("/")
        return f"{_address(address)}/{int(length)}"

    return check


def _range6(text: str) -> str:
    """A range of IPv6 addresses, refused in dockerd's words: what it could not share with every link is none."""
    if not text:
        return ""
    version, first, length = _block(text)
    behind = 128 - min(length, 64)
    wrong = ""
    if version != 6:
        wrong = f"'{text}' is not a valid IPv6 subnet"
    elif first >> 120 == 0xFF:
        wrong = f"multicast subnet '{text}' is not allowed"
    elif (first, length) != (_LINK_LOCAL, 64) and first >> behind == _LINK_LOCAL >> behind:
        wrong = f"'{text}' clashes with the Link-Local prefix 'fe80::/64'"
    if wrong:
        raise Invalid(f"invalid fixed-cidr-v6: {wrong}")
    return _block_of(6)(text)


def _pool(text: str) -> str:
    """An address pool `base=10.0.0.0/8,size=24` of the command line in the form of `Settings`: `10.0.0.0/8,24`."""
    given = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in ("base", "size"):
            raise Invalid(f"invalid default address pool: {text}: give base=CIDR,size=NUMBER")
        given[name] = value
    return _checked_pool(given.get("base", ""), given.get("size", ""))


def _checked_pool(base: str, size: str) -> str:
    version, _, length = _block(base)
    if not (size.isascii() and size.isdigit()) or len(size) > 3 or not length <= int(size) <= _LENGTHS[version]:
        highest = _LENGTHS[version]
        raise Invalid(f"invalid pool size {size or '(none)'}: give a number from {length} to {highest} for {base}")
    return f"{base},{int(size)}"


def pools_of_file(value: object) -> tuple[str, ...]:
    """Address pools from daemon.json, which has a list of objects: [{"base": "10.0.0.0/8", "size": 24}]. Raises
    Invalid.
    """
    if not isinstance(value, list):
        raise Invalid(f"expected a list of objects, got {json.dumps(value)}")
    pools = [configfile.members(each, _POOL) for each in value]
    for each in pools:
        if unknown := sorted(each.keys() - _POOL):
            raise Invalid(f"unknown key {unknown[0]}")
        if not isinstance(each.get("base"), str) or type(each.get("size")) is not int:
            raise Invalid(f"expected base (a string) and size (a number), got {json.dumps(each)}")
    return tuple(_checked_pool(each["base"], str(each["size"])) for each in pools)


def _network_option(text: str) -> str:
    """Check an option for new networks, such as `bridge=com.docker.network.driver.mtu=1400`. Raises Invalid."""
    driver, equals, option = text.partition("=")
    name, second, _ = option.partition("=")
    if not (driver and equals and name and second):
        raise Invalid(f"invalid key value pair format in default network opts: {text}: give DRIVER=NAME=VALUE")
    return text


def network_options_of_file(value: object) -> tuple[str, ...]:
    """Options for new networks from daemon.json, which has {"bridge": {"com.docker.network.driver.mtu": "1400"}}.
    Raises Invalid.
    """
    wrong = Invalid(f"expected an object of objects of strings, got {json.dumps(value)}")
    if not isinstance(value, dict):
        raise wrong
    found = []
    for driver, options in value.items():
        if not isinstance(options, dict) or not all(isinstance(each, str) for each in options.values()):
            raise wrong
        found += [_network_option(f"{driver}={name}={each}") for name, each in options.items()]
    return tuple(found)


def _mtu(text: str) -> str:
    if not (text.isascii() and text.isdigit()) or len(text) > 5 or int(text) > _HIGHEST_MTU:
        raise Invalid(f"invalid MTU: {text}: give a number from 0 to {_HIGHEST_MTU}")
    return str(int(text))


def mtu_of_file(value: object) -> str:
    """The MTU from daemon.json, which has it as a number. Raises Invalid."""
    if type(value) is not int:
        raise Invalid(f"expected a number, got {json.dumps(value)}")
    return _mtu(str(value))


def _bridge(text: str) -> str:
    strange = any(letter.isspace() or letter in "/:%\0" for letter in text)
    if strange or text in (".", "..") or len(text.encode()) > _NAME_BYTES:
        raise Invalid(f'"{text}" is not a valid name of a network interface')
    return text


def _domain(text: str) -> str:
    if not text or any(letter.isspace() or letter == "\0" for letter in text):
        raise Invalid(f"{text} is not a valid domain")
    return text


def _word(text: str) -> str:
    if not text or any(letter.isspace() or letter == "\0" for letter in text):
        raise Invalid(f'"{text}" is not one word')
    return text


def _text(name: str, help_: str, check: Callable[[str], str], value: str, default: str = "") -> Option:
    return Option(name, help_, check=check, default=default, value=value, key=name)


def _flag(name: str, help_: str, *, default: bool) -> Option:
    return Option(name, help_, kind="flag", default=default, key=name)


def _list(name: str, key: str, help_: str, check: Callable[[str], str], value: str) -> Option:
    return Option(name, f"{help_}; repeatable", kind="list", check=check, default=(), value=value, key=key)


def mark(text: str) -> tuple[int, int]:
    """The firewall mark and the mask of `MARK[/MASK]`, each decimal, or hexadecimal with `0x`. Raises Invalid."""
    first, slash, second = text.partition("/")
    numbers = [_bits(first), _bits(second) if slash else _ALL_BITS]
    for number, what in zip(numbers, ("mark", "mask"), strict=True):
        if number is None:
            raise Invalid(f"invalid bridge-accept-fwmark: invalid firewall {what} {quoted(text)}")
    return numbers[0] or 0, numbers[1] or 0


def _bits(text: str) -> int | None:
    digits = text.lower().removeprefix("0x")
    if digits == text.lower():
        return natural(text, _ALL_BITS)
    return int(digits, 16) if 0 < len(digits) <= 8 and all(each in "0123456789abcdef" for each in digits) else None


def _mark(text: str) -> str:
    if text:
        mark(text)
    return text


OPTIONS = (
    Option(
        "bridge",
        "Bridge of the network `bridge` that is there already, in the place of engine0; none: no such network",
        short="b",
        check=_bridge,
        value="name",
        key="bridge",
    ),
    _text("bip", "IPv4 address of the default bridge, with its prefix", _block_of(4), "cidr"),
    _text("bip6", "IPv6 address of the default bridge, with its prefix", _block_of(6), "cidr"),
    _text("fixed-cidr", "IPv4 range of the containers on the default bridge", _block_of(4), "cidr"),
    _text("fixed-cidr-v6", "IPv6 range of the containers on the default bridge", _range6, "cidr"),
    _text("default-gateway", "IPv4 gateway of the containers on the default bridge", _address_of(4), "address"),
    _text("default-gateway-v6", "IPv6 gateway of the containers on the default bridge", _address_of(6), "address"),
    _flag("ipv6", "IPv6 on the default bridge", default=False),
    _text("mtu", "MTU of the default bridge and its containers", _mtu, "bytes", "1500"),
    _flag("icc", "Let the containers on the default bridge reach each other", default=True),
    _flag("ip-masq", "Give what leaves the default bridge the host's address", default=True),
    _text("ip", "Address of the host at which ports are published that name none", _address, "address", "0.0.0.0"),
    _flag("ip-forward", "Switch the host's forwarding on when a network needs it", default=True),
    _flag("ip-forward-no-drop", "Then do not drop what is forwarded elsewhere", default=False),
    _flag("iptables", "Firewall rules for IPv4 (by nf_tables, in a table of the engine's own)", default=True),
    _flag("ip6tables", "The same for IPv6", default=True),
    _flag(
        "userland-proxy",
        "Publish by a process what rules cannot: on ::1, on [::] for containers with IPv4 alone, without a firewall",
        default=True,
    ),
    _flag(
        "allow-direct-routing",
        "Let other hosts reach published ports at the containers' own addresses too",
        default=False,
    ),
    _text(
        "bridge-accept-fwmark",
        "Let packets with this firewall mark, MARK[/MASK], into all bridge networks that are not internal",
        _mark,
        "mark",
    ),
    _list(
        "default-address-pool",
        "default-address-pools",
        "Where networks get their subnets from that name none: base=CIDR,size=BITS",
        _pool,
        "pool",
    ),
    _list(
        "default-network-opt",
        "default-network-opts",
        "Option DRIVER=NAME=VALUE of new networks that do not name it",
        _network_option,
        "option",
    ),
    _list("dns", "dns", "DNS server of containers that name none", _address, "address"),
    _list("dns-search", "dns-search", "DNS search domain of the same", _domain, "domain"),
    _list("dns-opt", "dns-opts", "Option of resolv.conf(5) of the same", _word, "option"),
    _list(
        "host-gateway-ip",
        "host-gateway-ips",
        "What `host-gateway` means in --add-host, in the place of the default bridge's address",
        _address,
        "address",
    ),
)
FILE_READERS: dict[str, Callable[[object], Value]] = {
    "default-address-pools": pools_of_file,
    "default-network-opts": network_options_of_file,
    "mtu": mtu_of_file,
}


def check_together(values: Given) -> None:
    """Raise Invalid for options that contradict each other, in dockerd's words where it has any. values: by key"""
    for own in ("bip", "bip6"):
        if values["bridge"] and values[own]:
            raise Invalid(f"You specified -b & --{own}, mutually exclusive options. Please specify only one")
    for walls, needed in (("iptables", True), ("ip6tables", values["ipv6"])):
        if needed and not values[walls] and not values["icc"]:
            raise Invalid(
                f"You specified --{walls}=false with --icc=false. ICC=false uses {walls} to function."
                f" Please set --icc or --{walls} to true"
            )
    families = [":" in each for each in given_texts(values, "host-gateway-ips")]
    if families.count(True) > 1 or families.count(False) > 1:
        raise Invalid("only one IPv4 and one IPv6 host gateway IP address can be specified")
    for outer, inner, gateway in (
        ("bip", "fixed-cidr", "default-gateway"),
        ("bip6", "fixed-cidr-v6", "default-gateway-v6"),
    ):
        _check_within(str(values[outer] or values[inner]), outer, str(values[inner]), inner)
        whole = str(values[outer] or values[inner])
        if whole and values[gateway]:
            _check_within(whole, outer, f"{values[gateway]}/{_LENGTHS[_block(whole)[0]]}", gateway)


def _check_within(outer: str, outer_name: str, inner: str, inner_name: str) -> None:
    if not outer or not inner:
        return
    version, first, length = _block(outer)
    _, inner_first, inner_length = _block(inner)
    behind = _LENGTHS[version] - length
    if inner_length < length or inner_first >> behind << behind != first:
        raise Invalid(f"--{inner_name} {inner} is not within --{outer_name} {outer}")

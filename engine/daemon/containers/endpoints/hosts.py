"""Make the lines of a container's /etc/hosts (ExtraHosts, its own addresses, links), and change them in a running one.

The functions that return text are pure. `add`, `drop` and `renew` change the file of a running container, in place, as
it is a bind mount. They run in the daemon's threads under the container's `operation`. Programs in the container write
that file too: their lines stay, and a file that has grown too long (1 MiB) is left alone.
"""

import logging
import os
from collections.abc import Callable, Iterable

from engine.daemon.containers.record import Container
from engine.daemon.network.record import Endpoint

log = logging.getLogger(__name__)

HOST_GATEWAY = "host-gateway"
LOCALHOST4 = "127.0.0.1\tlocalhost\n"
LOCALHOST = f"""{LOCALHOST4}::1\tlocalhost ip6-localhost ip6-loopback
fe00::\tip6-localnet
ff00::\tip6-mcastprefix
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
"""
_OFF = ("net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.lo.disable_ipv6")
_LONGEST = 1 << 20
_OTHERS, _END = b"# other containers\n", b"# end of other containers\n"


def has_ipv6(container: Container) -> bool:
    """Whether the container leaves IPv6 on; with docker's two parameters it is given neither address nor line of it."""
    asked = container.host_config["Sysctls"] or {}
    return not any(asked.get(name, "").strip() == "1" for name in _OFF)


def extra(container: Container, gateways: Iterable[str]) -> str:
    """The lines of ExtraHosts. gateways: the host's addresses, which `host-gateway` stands for."""
    text = ""
    for entry in container.host_config["ExtraHosts"] or ():
        name, _, address = entry.partition(":")
        addresses = gateways if address == HOST_GATEWAY else (address.removeprefix("[").removesuffix("]"),)
        text += "".join(f"{each}\t{name}\n" for each in addresses)
    return text


def asks_for_gateway(container: Container) -> bool:
    """Whether any of the container's ExtraHosts is `host-gateway`."""
    return any(entry.partition(":")[2] == HOST_GATEWAY for entry in container.host_config["ExtraHosts"] or ())


def own(container: Container, endpoints: Iterable[Endpoint]) -> str:
    """The lines of the container's own name, one for each of its addresses.

    Each line has the whole name and its first part, whether the client gave the domain apart or within the name.
    """
    name, domain = container.config["Hostname"], container.config["Domainname"]
    whole = f"{name}.{domain}" if domain else name
    names = " ".join(dict.fromkeys((whole, whole.partition(".")[0] or whole)))
    return "".join(lines(names, endpoint) for endpoint in endpoints) if name else ""


def lines(names: str, endpoint: Endpoint) -> str:
    """One line for each address of an endpoint."""
    return "".join(f"{address}\t{names}\n" for address in (endpoint.ipv4, endpoint.ipv6) if address)


def add(path: str, text: str) -> None:
    """Add lines to the file of a container that runs."""
    if text:
        _change(path, lambda content: _lines(content.splitlines()) + _raw(text))


def drop(path: str, text: str) -> None:
    """Remove exactly these lines from the file of a container that runs."""
    gone = set(_raw(text).splitlines())
    if gone:
        _change(path, lambda content: _lines(line for line in content.splitlines() if line not in gone))


def renew(path: str, names: str, text: str) -> None:
    """Replace all lines that give exactly these names by `text`."""
    ending = _raw(f"\t{names}")

    def changed(content: bytes) -> bytes:
        return _lines(line for line in content.splitlines() if not line.endswith(ending)) + _raw(text)

    _change(path, changed)


def set_others(path: str, text: str) -> None:
    """Replace the part of the file that has the lines of other containers (see `apartnames`)."""

    def changed(content: bytes) -> bytes:
        before, begun, rest = content.rpartition(_OTHERS)
        _, ended, after = rest.partition(_END)
        kept = before + after if begun and ended else content  # without its end the part is the container's own text
        return _lines(kept.splitlines()) + _OTHERS + _raw(text) + _END if text else kept

    _change(path, changed)


def _lines(kept: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in kept)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _change(path: str, changed: Callable[[bytes], bytes]) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return  # the container is about to be removed
    try:
        before = os.pread(descriptor, _LONGEST + 1, 0)
        if len(before) > _LONGEST:
            log.warning("%s is left as it is: it is too long", path)
            return
        after = changed(before)
        if after != before:
            # Written over, then cut: a program that reads the file meanwhile finds no empty file.
            os.pwrite(descriptor, after, 0)
            os.ftruncate(descriptor, len(after))
    finally:
        os.close(descriptor)

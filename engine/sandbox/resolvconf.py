"""Makes a container's /etc/resolv.conf from the host's file and from what was asked for (resolv.conf(5)).

Pure: texts in, texts out. Used by the daemon, and by the resolver to read which servers the host asks. Nothing that a
client asks for is checked here: a server that is no address fails when the file is used.
"""

import socket
from collections.abc import Callable, Iterable

from engine.dataclass import dataclass

HOST = "/etc/resolv.conf"
RESOLVER = "127.0.0.11"
# systemd-resolved's stub answers only in the host's network namespace; it lists the real servers in another file.
STUB = "127.0.0.53"
BEHIND_STUB = "/run/systemd/resolve/resolv.conf"
_FALLBACK = ("8.8.8.8", "8.8.4.4")
_FALLBACK6 = ("2001:4860:4860::8888", "2001:4860:4860::8844")
_HEADER = "# Made by the engine, which leaves the file alone once somebody else has changed it.\n\n"


@dataclass(frozen=True, slots=True)
class AskedNames:
    """What was asked for in place of the host's; empty: nothing. `.` among the domains: no search list at all."""

    servers: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.servers or self.search or self.options)


def asked(
    servers: Iterable[str] | None, search: Iterable[str] | None, options: Iterable[str] | None, of_daemon: AskedNames
) -> AskedNames:
    """What a container asks for; for what it does not ask for, the values that its daemon was given (--dns, ...)."""
    return AskedNames(
        tuple(servers or of_daemon.servers),
        tuple(search or of_daemon.search),
        tuple(options or of_daemon.options),
    )


def for_host(text: str, wishes: AskedNames) -> str:
    """For a container in the host's network: the host's own file, unless something else was asked for."""
    if not wishes:
        return text
    host = _Lines(text)
    return _written(wishes.servers or host.servers, wishes.search or host.search, wishes.options or host.options)


def for_bridge(text: str, behind_stub: Callable[[], str], wishes: AskedNames, *, ipv6: bool = False) -> str:
    """For a container with a network of its own and no resolver: those servers of the host that can be reached from
    there.

    behind_stub: reads systemd-resolved's own file; returns empty for none
    """
    host = _Lines(text)
    if host.servers == [STUB]:
        host = _Lines(behind_stub() or text)
    servers = wishes.servers
    if not servers:
        reached = [each for each in host.servers if not _is_loopback(each) and (ipv6 or ":" not in each)]
        servers = tuple(reached) or _FALLBACK + _FALLBACK6 * ipv6
    return _written(servers, wishes.search or host.search, wishes.options or host.options)


def for_resolver(text: str, wishes: AskedNames) -> str:
    """For a container whose names the resolver answers; a comment names the servers that the resolver itself asks."""
    host = _Lines(text)
    options = [each for each in wishes.options or host.options if not each.startswith("ndots") or _ndots(each) >= 0]
    source = "the container's" if wishes.options else "the host's"
    if not any(each.startswith("ndots") for each in options):
        options.append("ndots:0")
        source = "the engine's"
    outside = [*wishes.servers] if wishes.servers else [f"host({each})" for each in host.servers]
    overrides = [name for name in ("servers", "search", "options") if getattr(wishes, name)]
    comments = (
        f"# ExtServers: [{' '.join(outside)}]",
        f"# Overrides: [{' '.join(overrides).replace('servers', 'nameservers')}]",
        f"# Option ndots: {source}",
    )
    return _HEADER + _written([RESOLVER], wishes.search or host.search, options) + "\n" + "\n".join(comments) + "\n"


def nameservers(text: str) -> list[str]:
    """The addresses of the text's nameserver lines."""
    return _Lines(text).servers


def dotted(text: str, wishes: AskedNames) -> bool:
    """Whether names of one label are only for the search list: the host's or the container's ndots is more than 0."""
    return any(_ndots(option) > 0 for option in wishes.options or _Lines(text).options)


class _Lines:
    """The parsed lines of a resolv.conf."""

    def __init__(self, text: str) -> None:
        self.servers: list[str] = []
        self.search: list[str] = []
        self.options: list[str] = []
        for keyword, *words in (line.split() for line in text.splitlines() if line[:1] not in "#;" and line.split()):
            if keyword == "nameserver" and words and _is_address(words[0]):
                self.servers.append(words[0])
            elif keyword in ("search", "domain") and words:
                self.search = words  # the last one counts
            elif keyword == "options":
                self.options += words


def _written(servers: Iterable[str], search: Iterable[str], options: Iterable[str]) -> str:
    lines = [f"nameserver {server}" for server in servers]
    domains = [domain for domain in search if domain != "."]
    if domains:
        lines.append(f"search {' '.join(domains)}")
    if options:
        lines.append(f"options {' '.join(options)}")
    return "\n".join(lines) + "\n"


def _ndots(option: str) -> int:
    """The number of `ndots:N`; -1 for any other option, and for none."""
    name, _, number = option.partition(":")
    number = number.lstrip("0") or number[:1]
    return int(number[:3]) if name == "ndots" and number.isascii() and number.isdigit() else -1


def _is_loopback(server: str) -> bool:
    return server.startswith("127.") or server == "::1"


def _is_address(text: str) -> bool:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    try:
        socket.inet_pton(family, text.partition("%")[0])
    except (OSError, ValueError):
        return False
    return True

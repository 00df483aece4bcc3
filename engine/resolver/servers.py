"""The DNS servers that the resolver forwards to, as addresses; reads those of the host from its resolv.conf.

One thread. The host's file is checked again at most once a second, when a query needs it: a host may be up before its
network is, and a laptop has many networks.
"""

import os
import socket
import time
from collections.abc import Iterable

from engine.sandbox import resolvconf

MOST = 3
"""The number of servers that resolv.conf(5) uses."""
_PORT = 53
_LOOK_SECONDS = 1.0
_LARGEST = 65536

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int]]
"""A server: its family and what connect(2) takes."""


class HostServers:
    """The servers of the host. path: its resolv.conf"""

    def __init__(self, path: str = resolvconf.HOST) -> None:
        self._path = path
        self._seen: tuple[int, int, int, int] | None = None
        self._looked = float("-inf")
        self._servers: tuple[Address, ...] = ()

    def __call__(self) -> tuple[Address, ...]:
        """The servers that the host asks, in their order."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._look()
        return self._servers

    def _look(self) -> None:
        try:
            status = os.stat(self._path)
            seen = status.st_ino, status.st_dev, status.st_mtime_ns, status.st_size
            if seen == self._seen:
                return
            with open(self._path, errors="replace") as file:
                text = file.read(_LARGEST)
        except OSError:
            seen, text = None, ""  # a host without the file has no servers
        self._seen, self._servers = seen, addresses(resolvconf.nameservers(text))


def addresses(servers: Iterable[str]) -> tuple[Address, ...]:
    """The first few servers as addresses, at most `MOST`.

    A text that is no address, or that names an interface that does not exist, is left out.
    """
    found: list[Address] = []
    for server in servers:
        text, _, interface = server.partition("%")
        family = socket.AF_INET6 if ":" in text else socket.AF_INET
        try:
            socket.inet_pton(family, text)
            place = socket.if_nametoindex(interface) if interface else 0
        except (OSError, ValueError):
            continue
        found.append((family, (text, _PORT, 0, place) if family == socket.AF_INET6 else (text, _PORT)))
    return tuple(dict.fromkeys(found))[:MOST]

"""The three files that are mounted over a container's own: hostname, hosts and resolv.conf.

Runs in the daemon's request threads, at create and, to mend what a power cut took, at start. Never fsyncs: all of this
can be written again from the container's record.
"""

import logging
import os
import sys
from collections.abc import Callable

from engine.daemon.containers.networking.hosts import LOCALHOST, extra
from engine.daemon.containers.paths import Paths
from engine.daemon.containers.record import Container
from engine.daemon.tar.trees import remove_path

log = logging.getLogger(__name__)

NAMES = ("hostname", "hosts", "resolv.conf")

# systemd-resolved's stub answers only in the host's network namespace; it lists the real servers in another file.
_STUB = "127.0.0.53"
_BEHIND_STUB = "/run/systemd/resolve/resolv.conf"
_FALLBACK_SERVERS = ("8.8.8.8", "8.8.4.4")


def write(where: Paths, container: Container) -> None:
    """Make the container's home, and in it hostname, hosts and resolv.conf. Raises OSError."""
    try:
        os.mkdir(where.home, 0o710)
    except FileExistsError:
        pass  # `mend` comes here too
    for name, content in zip(NAMES, _contents(container), strict=True):
        _write(where.etc(name), content)


def first_hosts(container: Container) -> str:
    """What a container's hosts begins with: the host's own file in the host's network, else the names of loopback."""
    if container.host_config["NetworkMode"] != "host":
        return LOCALHOST
    hosts = _read("/etc/hosts")
    return hosts if not hosts or hosts.endswith("\n") else f"{hosts}\n"


def write_hosts(where: Paths, text: str) -> None:
    """Write hosts anew for a start. Raises OSError."""
    _write(where.etc("hosts"), text.encode("utf-8", "surrogateescape"))


def mend(where: Paths, container: Container) -> None:
    """Write the files again when one of them is missing or empty, as a power cut may leave them."""
    for name in NAMES:
        try:
            whole = os.stat(where.etc(name)).st_size > 0
        except FileNotFoundError:
            whole = False
        # The host's own resolv.conf may be empty for good; then this writes a few bytes more than needed.
        if not whole:
            write(where, container)
            return


def sweep(data_root: str, known: Callable[[str], bool]) -> None:
    """Delete homes without a record: their containers were being made, or removed, when an earlier daemon died.

    Runs once at start-up. `known`: says whether an id has a record.
    """
    place = os.path.join(data_root, "containers")
    for name in os.listdir(place):
        if not known(name):
            try:
                remove_path(os.path.join(place, name))
            except OSError as error:  # no reason to keep all the other containers from their daemon
                log.warning("files of a removed container stay until the next start: %s", error)


def _write(path: str, content: bytes) -> None:
    # The mode is said once more as the daemon's umask must not keep a container's user from reading its hosts file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(descriptor, 0o644)
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _contents(container: Container) -> tuple[bytes, ...]:
    config, host_config = container.config, container.host_config
    on_host = host_config["NetworkMode"] == "host"
    # Its own addresses, and what `host-gateway` stands for, are known at its start.
    hosts = first_hosts(container) + extra(container, ())
    return (
        f"{config['Hostname']}\n".encode(),
        hosts.encode("utf-8", "surrogateescape"),
        _resolv_conf(host_config, on_host).encode("utf-8", "surrogateescape"),
    )


def _resolv_conf(host_config: dict, on_host: bool) -> str:
    """resolv.conf(5): the host's lines, each kind replaced by what the container asked for."""
    text = _read("/etc/resolv.conf")
    servers, search, options = (host_config[key] for key in ("Dns", "DnsSearch", "DnsOptions"))
    if on_host and not (servers or search or options):
        return text
    lines = [line.split() for line in text.splitlines()]
    if not on_host and [line[1] for line in lines if len(line) > 1 and line[0] == "nameserver"] == [_STUB]:
        lines = [line.split() for line in (_read(_BEHIND_STUB) or text).splitlines()]

    def of_host(keyword: str) -> list[str]:
        return [word for line in lines if line and line[0] == keyword for word in line[1:]]

    if not servers:
        servers = [server for server in of_host("nameserver") if on_host or not _is_loopback(server)]
        servers = servers or list(_FALLBACK_SERVERS)
    if search is None or not search:
        search = of_host("search") or of_host("domain")
    # `.` alone asks for no search list at all (docker run --dns-search .).
    search = [domain for domain in search if domain != "."]
    options = options or of_host("options")
    written = [f"nameserver {server}" for server in servers]
    if search:
        written.append(f"search {' '.join(search)}")
    if options:
        written.append(f"options {' '.join(options)}")
    return "\n".join(written) + "\n"


def _is_loopback(server: str) -> bool:
    return server.startswith("127.") or server == "::1"


def _read(path: str) -> str:
    try:
        with open(path, encoding=sys.getfilesystemencoding(), errors="surrogateescape") as file:
            return file.read()
    except FileNotFoundError:
        # A host may well have neither hosts nor resolv.conf.
        return ""

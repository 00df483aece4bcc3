"""Write the hostname, hosts and resolv.conf files on the host that are mounted over a container's own in /etc.

Runs in the daemon's request threads: at create; at each start, when the addresses and the resolver are known, and to
repair what a power cut took; while the container runs, when its networks change. It never fsyncs: the files can be
written again from the container's record.
"""

import contextlib
import os
import time
from collections.abc import Callable

from engine.daemon.clock import SECOND
from engine.daemon.containers.endpoints.hosts import LOCALHOST, LOCALHOST4, extra, has_ipv6
from engine.daemon.containers.paths import Paths
from engine.daemon.containers.record import Container
from engine.daemon.tar.trees import left_for_later, remove_path
from engine.kernel import smallfile
from engine.sandbox import resolvconf
from engine.settings.every import Settings

NAMES = ("hostname", "hosts", "resolv.conf")

# The nanoseconds of the modification time of each resolv.conf that the engine has written. Another writer's differ.
_OURS = 127_000_011


def mounted(container: Container) -> tuple[str, ...]:
    """The names of the files that are mounted in the container: dockerd has none for one without networks."""
    return () if container.config["NetworkDisabled"] else NAMES


def write(where: Paths, container: Container) -> None:
    """Make the container's home, and in it hostname, hosts and resolv.conf. Raises OSError."""
    try:
        os.mkdir(where.home, 0o700)
    except FileExistsError:
        pass  # `mend` calls this too
    for name, content in zip(NAMES, _contents(container), strict=True):
        _write(where.etc(name), content)


def first_hosts(container: Container) -> str:
    """The first lines of a container's hosts: the host's own file in the host's network, else the names of loopback.

    Names of the client's own take the place of all that the host's file has, as with dockerd.
    """
    if container.host_config["NetworkMode"] != "host" or container.host_config["ExtraHosts"]:
        return LOCALHOST if has_ipv6(container) else LOCALHOST4
    hosts = _read("/etc/hosts")
    return hosts if not hosts or hosts.endswith("\n") else f"{hosts}\n"


def write_hosts(where: Paths, text: str) -> None:
    """Write hosts anew for a start. Raises OSError."""
    _write(where.etc("hosts"), text.encode("utf-8", "surrogateescape"))


def write_resolv_conf(
    where: Paths, settings: Settings, container: Container, served: bool, *, ipv6: bool = False
) -> None:
    """Write resolv.conf anew for a start, or because the networks of a running container have changed.

    Raises OSError. While the container runs, a file that another program has written is left alone. settings: the
    daemon's; served: the resolver answers in the container; ipv6: one of its networks has IPv6
    """
    path = where.etc("resolv.conf")
    try:
        if container.state.alive and os.stat(path).st_mtime_ns % SECOND != _OURS:
            return
    except FileNotFoundError:
        pass  # `mend` repairs missing files; this one is written here all the same
    _write(path, _resolv_conf(container, settings, served, ipv6))
    now = time.time_ns() // SECOND * SECOND + _OURS
    os.utime(path, ns=(now, now))


def mend(where: Paths, container: Container) -> None:
    """Write the files again when one of them is missing or empty, as a power cut may leave them."""
    for name in NAMES:
        try:
            whole = os.stat(where.etc(name)).st_size > 0
        except FileNotFoundError:
            whole = False
        # The host's own resolv.conf may be empty for good; then each call writes a few bytes more than needed.
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
            with left_for_later("files of a removed container"):
                remove_path(os.path.join(place, name))


def mount_id(where: Paths) -> None:
    """Write the file in which monitors of docker's overlay2 look for the name of the layer that is written to."""
    _write(f"{where.home}/mount-id", os.path.basename(where.home).encode())


def layerdb(data_root: str) -> None:
    """Make docker's directory of these files a link to that of the containers, and the files that are missing.

    Runs once at start-up of a daemon that was told to be overlay2. The engine itself never looks there. Raises OSError.
    """
    above = os.path.join(data_root, "image/overlay2/layerdb")
    os.makedirs(above, 0o700, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink("../../../containers", os.path.join(above, "mounts"))
    for name in os.listdir(os.path.join(data_root, "containers")):
        if not os.path.exists(os.path.join(data_root, "containers", name, "mount-id")):
            mount_id(Paths(os.path.join(data_root, "containers", name), ""))


def _write(path: str, content: bytes) -> None:
    # fchmod, since the daemon's umask must not keep a container's user from reading its hosts file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(descriptor, 0o644)
        os.write(descriptor, content)
        # Written over, and truncated only where it was longer: to empty a file first takes 0.2 ms, at each start.
        if os.fstat(descriptor).st_size > len(content):
            os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def _contents(container: Container) -> tuple[bytes, ...]:
    # A start adds the container's own addresses, the address of `host-gateway`, and the resolver that answers its
    # names.
    hosts = first_hosts(container) + extra(container, ())
    return (
        f"{container.config['Hostname']}\n".encode(),
        hosts.encode("utf-8", "surrogateescape"),
        _resolv_conf(container, None, served=False, ipv6=False),
    )


def _resolv_conf(container: Container, settings: Settings | None, served: bool, ipv6: bool) -> bytes:
    of_daemon = resolvconf.AskedNames()
    if settings is not None:
        of_daemon = resolvconf.AskedNames(settings.dns, settings.dns_search, settings.dns_opts)
    asked = container.host_config
    wishes = resolvconf.asked(asked["Dns"], asked["DnsSearch"], asked["DnsOptions"], of_daemon)
    text = _read(resolvconf.HOST)
    if served:
        text = resolvconf.for_resolver(text, wishes)
    elif container.host_config["NetworkMode"] == "host":
        text = resolvconf.for_host(text, wishes)
    else:
        text = resolvconf.for_bridge(text, lambda: _read(resolvconf.BEHIND_STUB), wishes, ipv6=ipv6)
    return text.encode("utf-8", "surrogateescape")


def _read(path: str) -> str:
    try:
        text = os.fsdecode(smallfile.read(path))
    except FileNotFoundError:
        # A host may well have neither hosts nor resolv.conf.
        return ""
    return text.replace("\r\n", "\n").replace("\r", "\n")

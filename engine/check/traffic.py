"""Probes what a container's network needs: bridges, veth pairs, nf_tables, forwarding, and firewalls of others.

Each probe runs in a child of its own (see `trial`). Links and tables are made in a new network namespace, which ends
with the child; of the host's network the probes only read. For that the kernel loads modules, as it does for a daemon.
"""

import os
import re

from engine.check.isolation import words
from engine.check.row import MISSING, OK, UNUSED, Check, Found
from engine.daemon.network.firewall import table
from engine.errors import Unavailable
from engine.kernel import modprobe, syscalls
from engine.kernel.netlink import links, nftables
from engine.kernel.netlink.socket import Netlink
from engine.settings.every import Settings

_MAC = "02:42:00:00:00:01"
_NET = "/proc/sys/net"
_MTU = 1500


def _links(_: Settings) -> Found:
    modprobe.stand_in(modprobe.LINKS["bridge"])
    syscalls.unshare(syscalls.CLONE_NEWNET)
    own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    with Netlink() as netlink:
        netlink.send(links.bridge("check0", _MAC, _MTU))
        master = links.index_of(netlink, "check0")
        netlink.send(links.veth("check1", master, _MTU, "check2", _MAC, own, ipv6=os.path.isdir(f"{_NET}/ipv6")))
    return Found(OK, "a bridge and a veth pair can be made")


def _nf_tables(_: Settings) -> Found:
    modprobe.stand_in(modprobe.FIREWALL)
    syscalls.unshare(syscalls.CLONE_NEWNET)
    with Netlink(nftables.NETFILTER) as netlink:
        nftables.commit(netlink, table.empty("engine-check", table.FAMILIES))
    return Found(OK, "the engine's table can be made, with all that its rules need")


def _br_netfilter(settings: Settings) -> Found:
    if os.path.isdir(f"{_NET}/bridge"):
        return Found(OK, "loaded")
    try:
        modprobe.found("br_netfilter")
    except Unavailable as error:
        return Found(UNUSED if settings.icc else MISSING, str(error))
    return Found(OK, "not loaded; the daemon loads it with the first network that needs it")


def _forwarding(settings: Settings) -> Found:
    place = f"{_NET}/ipv4/ip_forward"
    if words(place) == "1":
        return Found(OK, "on")
    if not settings.ip_forward:
        return Found(MISSING, "off, and --ip-forward=false keeps the engine from switching it on")
    # root's rights do not count where /proc/sys is mounted read-only
    if os.statvfs(place).f_flag & os.ST_RDONLY or not os.access(place, os.W_OK):
        return Found(MISSING, f"off, and {place} cannot be written")
    return Found(OK, "off; the engine switches it on with the first network that needs it")


def _ipv6(_: Settings) -> Found:
    if not os.path.isdir(f"{_NET}/ipv6"):
        return Found(UNUSED, "the kernel has no IPv6, or it is switched off")
    return Found(OK, "there")


def _droppers(_: Settings) -> Found:
    with Netlink(nftables.NETFILTER) as netlink:
        chains = [each for each in nftables.droppers(netlink, nftables.FORWARD) if " engine-" not in each]
    if chains:
        return Found(MISSING, f"{'; '.join(chains)}: drops by default, perhaps containers' packets too")
    return Found(OK, "no other firewall drops forwarded packets by default")


def _dockerd(_: Settings) -> Found:
    pids = [name for name in os.listdir("/proc") if name.isdecimal() and words(f"/proc/{name}/comm") == "dockerd"]
    text = "dockerd runs beside, as process {}; both work, and each has containers of its own"
    return Found(OK, text.format(", ".join(pids))) if pids else Found(UNUSED, "no dockerd runs beside")


def _name_servers(_: Settings) -> Found:
    found = re.findall(r"^nameserver\s+(\S+)", words("/etc/resolv.conf"), re.MULTILINE)
    return Found(OK, ", ".join(found)) if found else Found(MISSING, "/etc/resolv.conf names no server")


CHECKS = (
    Check(
        "bridge and veth",
        _links,
        "Containers can only have the networks host and none.",
        "modprobe bridge; modprobe veth",
        essential=True,
    ),
    Check(
        "nf_tables",
        _nf_tables,
        "Networks are bridges without a firewall: nothing keeps them apart, containers reach nothing outside, and"
        " internal networks are refused. Ports are published through the userland proxy.",
        "modprobe nf_tables; modprobe nft_chain_nat; modprobe nft_fib_inet; modprobe nft_masq",
    ),
    Check("br_netfilter", _br_netfilter, "Networks with icc=false are refused.", "modprobe br_netfilter"),
    Check(
        "forwarding",
        _forwarding,
        "Containers on a bridge reach only the host and each other.",
        "sysctl -w net.ipv4.ip_forward=1",
    ),
    Check("IPv6", _ipv6, "Networks have IPv4 alone.", ""),
    Check(
        "way for forwarded packets",
        _droppers,
        "Published ports and the containers' way out may not work.",
        "Let that firewall accept what comes from and goes to engine0 and br-*"
        " (with dockerd: iptables -I DOCKER-USER -i engine0 -j ACCEPT, and the same with -o)",
    ),
    Check("dockerd", _dockerd, "Nothing changes.", ""),
    Check(
        "name servers",
        _name_servers,
        "Containers resolve names with the servers of --dns alone.",
        "Write `nameserver ADDRESS` to /etc/resolv.conf, or start the daemon with --dns ADDRESS",
    ),
)

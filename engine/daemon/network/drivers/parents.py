"""The parent link of a macvlan or ipvlan network on the host: an existing link, a VLAN made on one, or a dummy link.

Runs in the daemon's request threads. `check` and `make` use dockerd's rules and words. A link that was made here
carries the engine's mark, so that no other link is ever removed.
"""

import re

from engine.daemon.network.record import Network
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.kernel.netlink import links
from engine.kernel.netlink.socket import Netlink

OPTION = "parent"
_TAG = re.compile(r"[+-]?[0-9]{1,9}")
_TAGS = range(1, 4095)


def device(network: Network, prefix: str) -> str:
    """The name of the parent link. Where the client named none, it is that of a dummy link, which leads nowhere."""
    return network.options.get(OPTION) or prefix + network.id[:12]


def own(network: Network) -> bool:
    """Whether the parent is the engine's own dummy link, as no parent was named: the network has no way out."""
    return not network.options.get(OPTION)


def check(network: Network, driver: str) -> None:
    """Raise docker's refusal of a parent that does not exist and cannot be made: Invalid."""
    if network.options.get(OPTION) == "lo":
        raise Invalid(f"loopback interface is not a valid {driver} parent link")
    if not own(network):
        links_name = network.options[OPTION]
        with Netlink() as netlink:
            if not _index(netlink, links_name):
                _vlan(netlink, links_name)


def make(netlink: Netlink, network: Network, mark: str) -> bool:
    """Make the parent link if it does not exist; True when it was made just now. Raises Invalid, SystemFailure."""
    name = network.device
    if _index(netlink, name):
        return False
    if own(network):
        requests, what = links.dummy(name, mark), "dummy"
    else:
        parent, tag = _vlan(netlink, name)
        requests, what = links.vlan(name, parent, tag, mark), "vlan"
    try:
        netlink.send(requests)
    except OSError as error:
        raise SystemFailure(f"failed to create {name} {what} link: {reasons.of(error)}") from error
    return True


def _index(netlink: Netlink, name: str) -> int:
    return links.index_of(netlink, name) if len(name.encode("utf-8", "surrogateescape")) <= links.NAME_BYTES else 0


def _vlan(netlink: Netlink, name: str) -> tuple[int, int]:
    """The index of the link that `name` is a VLAN of, and the VLAN's number. Raises Invalid."""
    if "." not in name:
        raise Invalid(f"invalid subinterface vlan name {name}, example formatting is eth0.10")
    parent, _, tag = name.partition(".")
    if "." in tag:
        example = "name.vlan_id, ex. eth0.10 for vlan 10"
        raise Invalid(f"required interface name format is: {example}, instead received {name}")
    if not _TAG.fullmatch(tag):
        raise Invalid(f"unable to parse a valid vlan id from: {tag} (ex. eth0.10 for vlan 10)")
    index = _index(netlink, parent)
    if not index:
        raise Invalid(f"-o parent interface was not found on the host: {parent}")
    if int(tag) not in _TAGS:
        raise Invalid(f"vlan id must be between 1-4094, received: {int(tag)}")
    if len(name) > links.NAME_BYTES:
        raise Invalid(f"the name of a link has at most {links.NAME_BYTES} bytes: {name}")
    return index, int(tag)

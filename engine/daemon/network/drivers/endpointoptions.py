"""Driver options of one container's endpoint: its interface's name, and kernel parameters (sysctls) of that interface.

Pure. The options are checked when a container is created or connected, and `plugging` applies them to the interface.
"""

import re
from collections.abc import Mapping

from engine.daemon.network.drivers import options
from engine.errors import Invalid

IFNAME = "com.docker.network.endpoint.ifname"
SYSCTLS = "com.docker.network.endpoint.sysctls"

_FAMILIES = frozenset(("ipv4", "ipv6", "mpls"))
# The command line client converts the whole option to lower case.
_PLACES = frozenset(("IFNAME", "ifname"))
_PART = re.compile(r"[a-z0-9_]+")
_PARTS = 5


def problems(given: Mapping[str, str]) -> list[str]:
    """The errors in these options, in docker's words where docker has any."""
    found = []
    if IFNAME in given:
        try:
            options.check_name(given[IFNAME])
        except Invalid as error:
            found.append(str(error))
    for wanted in _wanted(given):
        if _parsed(wanted) is None:
            found.append(
                f"unrecognised network interface sysctl '{wanted}'; represent 'net.X.Y.ethN.Z=V' as"
                " 'net.X.Y.IFNAME.Z=V', 'X' must be 'ipv4', 'ipv6' or 'mpls'"
            )
    return found


def sysctls(given: Mapping[str, str], interface: str) -> list[tuple[str, str]]:
    """(path below /proc/sys, value) of each kernel parameter, for an interface of this name.

    The options have been checked.
    """
    parsed = [_parsed(wanted) for wanted in _wanted(given)]
    return [(f"net/{family}/{kind}/{interface}/{key}", value) for family, kind, key, value in filter(None, parsed)]


def without_ipv6(given: Mapping[str, str]) -> bool:
    """Whether these options leave the interface without IPv6; the last one that says so counts, as in the kernel."""
    told = [value for path, value in sysctls(given, "") if path == "net/ipv6/conf//disable_ipv6"]
    return bool(told) and told[-1].strip() == "1"


def _wanted(given: Mapping[str, str]) -> list[str]:
    return given[SYSCTLS].split(",") if SYSCTLS in given else []


def _parsed(wanted: str) -> tuple[str, str, str, str] | None:
    """(family, kind, key, value) of `net.FAMILY.KIND.IFNAME.KEY=VALUE`."""
    name, equals, value = wanted.partition("=")
    parts = name.split(".")
    if not equals or len(parts) != _PARTS or "\0" in value:
        return None
    net, family, kind, place, key = parts
    if net != "net" or family not in _FAMILIES or place not in _PLACES:
        return None
    return (family, kind, key, value) if _PART.fullmatch(kind) and _PART.fullmatch(key) else None

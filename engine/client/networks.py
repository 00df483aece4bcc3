"""The verbs `engine network ...`: create, connect, disconnect, ls, rm.

Runs in the client's one thread.
"""

from collections.abc import Sequence

from engine.client.api import Api, noun_path
from engine.client.container.each import for_each
from engine.client.display import short_id
from engine.client.filtering import FILTER, query_of
from engine.client.showing.listings import FORMAT, Listing, Row, labelled, show
from engine.client.transport import Object
from engine.client.valuechecks import mapped, number, pair
from engine.commandline import Given, Option, given_text, given_texts
from engine.errors import Invalid
from engine.literals import integer


def _list(name: str, help: str, short: str = "") -> Option:
    return Option(name, help, short=short, kind="list", default=(), value="list")


CREATE_OPTIONS = (
    Option("attachable", "Enable manual container attachment", kind="flag", default=False),
    _list("aux-address", "Auxiliary IPv4 or IPv6 addresses used by Network driver (NAME=ADDRESS)"),
    Option("driver", "Driver to manage the Network", short="d", default="bridge"),
    _list("gateway", "IPv4 or IPv6 Gateway for the master subnet"),
    Option("internal", "Restrict external access to the network", kind="flag", default=False),
    _list("ip-range", "Allocate container ip from a sub-range"),
    Option("ipam-driver", "IP Address Management Driver", default="default"),
    _list("ipam-opt", "Set IPAM driver specific options"),
    Option("ipv4", "Enable or disable IPv4 address assignment", kind="flag", default=True),
    Option("ipv6", "Enable or disable IPv6 address assignment", kind="flag", default=False),
    Option("label", "Set metadata on a network", kind="list", default=(), value="list", check=pair),
    _list("opt", "Set driver specific options", "o"),
    _list("subnet", "Subnet in CIDR format that represents a network segment"),
)
CONNECT_OPTIONS = (
    _list("alias", "Add network-scoped alias for the container"),
    _list("driver-opt", "driver options for the network"),
    Option("gw-priority", "Highest gw-priority provides the default gateway", value="int", check=number),
    Option("ip", 'IPv4 address (e.g., "172.30.100.104")'),
    Option("ip6", 'IPv6 address (e.g., "2001:db8::33")'),
    _list("link", "Add link to another container"),
    _list("link-local-ip", "Add a link-local address for the container"),
)
DISCONNECT_OPTIONS = (
    Option("force", "Force the container to disconnect from a network", short="f", kind="flag", default=False),
)
LS_OPTIONS = (
    FILTER,
    FORMAT,
    Option("no-trunc", "Do not truncate the output", kind="flag", default=False),
    Option("quiet", "Only display network IDs", short="q", kind="flag", default=False),
)
RM_OPTIONS = (Option("force", "Do not error if the network does not exist", short="f", kind="flag", default=False),)
LISTING = Listing(
    {
        "ID": "NETWORK ID",
        "Name": "NAME",
        "Driver": "DRIVER",
        "Scope": "SCOPE",
        "IPv4": "IPV4",
        "IPv6": "IPV6",
        "Internal": "INTERNAL",
        "Labels": "LABELS",
        "CreatedAt": "CREATED AT",
    },
    ("ID", "Name", "Driver", "Scope"),
)


def create_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine network create NETWORK`: print its id. Raises Invalid, ApiError."""
    (name,) = others
    body: Object = {
        "Name": name,
        "Driver": given_text(given, "driver", "bridge"),
        "Options": mapped(given_texts(given, "opt")),
        "IPAM": {
            "Driver": given_text(given, "ipam-driver", "default"),
            "Options": mapped(given_texts(given, "ipam-opt")),
            "Config": pools(given),
        },
        "Internal": bool(given.get("internal")),
        "Attachable": bool(given.get("attachable")),
        "Labels": mapped(given_texts(given, "label")),
        **{f"Enable{family}": bool(given[option]) for option, family in _FAMILIES.items() if option in given},
    }
    print(api.call("POST", "/networks/create", None, body)["Id"])
    return 0


_FAMILIES = {"ipv4": "IPv4", "ipv6": "IPv6"}


def pools(given: Given) -> list[Object]:
    """The address pools: one for each subnet, with the range, the gateway and the addresses that are in it.

    Raises Invalid for one that is in no subnet.
    """
    # loaded for a network with subnets alone
    import ipaddress

    found: list[Object] = [{"Subnet": subnet} for subnet in given_texts(given, "subnet")]
    try:
        subnets = [ipaddress.ip_network(pool["Subnet"], strict=False) for pool in found]
        for option, field in (("ip-range", "IPRange"), ("gateway", "Gateway"), ("aux-address", "AuxiliaryAddresses")):
            for text in given_texts(given, option):
                name, separator, value = text.rpartition("=")
                address = ipaddress.ip_address(value.partition("/")[0])
                at = next((at for at, subnet in enumerate(subnets) if address in subnet), None)
                if at is None:
                    raise Invalid(f"no matching subnet for {option} {text}")
                if separator:
                    found[at].setdefault(field, {})[name] = value
                else:
                    found[at][field] = value
    except ValueError as error:
        raise Invalid(str(error)) from error
    return found


def connect_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine network connect NETWORK CONTAINER`. Raises ApiError."""
    network, container = others
    addresses: Object = {
        field: given_text(given, option)
        for option, field in (("ip", "IPv4Address"), ("ip6", "IPv6Address"))
        if option in given
    }
    if local := given_texts(given, "link-local-ip"):
        addresses["LinkLocalIPs"] = list(local)
    endpoint: Object = {"IPAMConfig": addresses} if addresses else {}
    if aliases := given_texts(given, "alias"):
        endpoint["Aliases"] = list(aliases)
    if links := given_texts(given, "link"):
        endpoint["Links"] = list(links)
    if options := given_texts(given, "driver-opt"):
        endpoint["DriverOpts"] = mapped(options)
    if "gw-priority" in given:
        endpoint["GwPriority"] = integer(given_text(given, "gw-priority"))
    body = {"Container": container, "EndpointConfig": endpoint}
    api.call("POST", noun_path("networks", network, "connect"), None, body)
    return 0


def disconnect_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine network disconnect NETWORK CONTAINER`. Raises ApiError."""
    network, container = others
    body = {"Container": container, "Force": bool(given.get("force"))}
    api.call("POST", noun_path("networks", network, "disconnect"), None, body)
    return 0


def ls_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine network ls`. Raises Invalid, ApiError."""
    found = api.call("GET", "/networks", {"filters": query_of(given_texts(given, "filter"))})
    form = given_text(given, "format") or ("{{.ID}}" if given.get("quiet") else "")
    full = bool(given.get("no-trunc"))
    show(LISTING, [network_row(each, full) for each in sorted(found, key=lambda each: str(each["Name"]))], form)
    return 0


def network_row(network: Object, full: bool) -> Row:
    """The fields of one network of GET /networks."""
    row = {
        "ID": network["Id"] if full else short_id(network["Id"]),
        "Name": network["Name"],
        "Driver": network["Driver"],
        "Scope": network["Scope"],
        "IPv4": _truth(network.get("EnableIPv4", True)),
        "IPv6": _truth(network.get("EnableIPv6")),
        "Internal": _truth(network.get("Internal")),
        "CreatedAt": _created(network.get("Created", "")),
    }
    return {**row, **labelled(network.get("Labels"))}


def _created(text: str) -> str:
    """A time of the API, which is in UTC, as Go prints it."""
    return text.replace("T", " ").replace("Z", " +0000 UTC")


def _truth(value: object) -> str:
    return "true" if value else "false"


def rm_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine network rm NETWORK...`."""
    return for_each(
        others, lambda name: api.call("DELETE", noun_path("networks", name)), absent_is_fine=bool(given.get("force"))
    )


FUNCTIONS = {
    "network create": (create_verb, CREATE_OPTIONS),
    "network connect": (connect_verb, CONNECT_OPTIONS),
    "network disconnect": (disconnect_verb, DISCONNECT_OPTIONS),
    "network ls": (ls_verb, LS_OPTIONS),
    "network rm": (rm_verb, RM_OPTIONS),
}

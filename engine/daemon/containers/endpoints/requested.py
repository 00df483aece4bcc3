"""Check and complete a client's endpoint settings at create and connect, and find the networks that they name.

Runs in the daemon's request threads, at create, connect and disconnect. It changes nothing: its results are shown and
obeyed as they are. A network that does not exist is no error here; the start refuses it.
"""

from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import EndpointSettings
from engine.daemon.network.record import BUILTIN, NONE, IPAMConfig, Network
from engine.daemon.parts import EndpointParts
from engine.errors import Invalid, NotFound
from engine.late import TYPE_CHECKING, late
from engine.literals import mac_address

if TYPE_CHECKING:  # loaded for the few endpoints that ask for an address or have options
    from engine.daemon.network import joining
    from engine.daemon.network.drivers import endpointoptions
else:
    endpointoptions = late("engine.daemon.network.drivers.endpointoptions")
    joining = late("engine.daemon.network.joining")

_MULTICAST = 1
_SHORT = 12

IP_NEEDS_USER_DEFINED = "user-specified IP address is supported on user-defined networks only"
ALIAS_NEEDS_USER_DEFINED = "network-scoped aliases are only supported for user-defined networks"
SHARES_A_NETWORK = (
    "container sharing network namespace with another container or host cannot be connected to any other network"
)
_WITH_NONE = "container cannot be connected to multiple networks with one of the networks in private (none) mode"
REMOVED = "Container {} is marked for removal and cannot be connected or disconnected to the network"
_NOT_ON_HOST = "cannot connect container to host network - container must be created in host network mode"


def settled(engine: EndpointParts, networking: dict[str, EndpointSettings]) -> dict[str, EndpointSettings]:
    """The networks of a new container: name → settings, sorted by name, with the ids of the networks that exist.

    networking: as `config.networking` makes it. Raises Invalid.
    """
    found: dict[str, EndpointSettings] = {}
    for reference, settings in networking.items():
        network = find(engine, reference)
        name = network.name if network else reference
        try:
            check(network, name, settings)
        except Invalid as error:
            raise Invalid(f"invalid config for network {reference}: {error}") from error
        found[name] = {**settings, "NetworkID": network.id} if network else settings
    return dict(sorted(found.items()))


def find(engine: EndpointParts, reference: str) -> Network | None:
    """The network, or None where it does not exist (yet)."""
    try:
        return engine.networks.find(reference)
    except NotFound:
        return None


def check(network: Network | None, name: str, settings: EndpointSettings) -> None:
    """Raise Invalid for settings that cannot be; network: None where it does not exist yet."""
    wrong = [*_wrong_with_a_builtin(name, settings), *_wrong_addresses(settings["IPAMConfig"] or {})]
    mac = settings["MacAddress"]
    if mac and not mac_address(mac):
        raise Invalid(f"invalid MAC address {mac}")
    if mac and int(mac[:2], 16) & _MULTICAST:
        wrong.append(f"invalid MAC address {mac}: it is a multicast address")
    wrong += _wrong_options(settings["DriverOpts"])
    if network is not None and settings["IPAMConfig"] and not wrong:
        wrong += joining.outside(network, settings["IPAMConfig"])
    if wrong:
        raise Invalid(f"invalid endpoint settings:\n{_joined(wrong)}")


def _joined(wrong: list[str]) -> str:
    if len(wrong) == 1:
        return wrong[0]
    return "".join(f"* {text}\n" for text in wrong).rstrip("\n")


def _wrong_with_a_builtin(name: str, settings: EndpointSettings) -> list[str]:
    if name not in (*BUILTIN, "default"):
        return []
    ipam = settings["IPAMConfig"] or {}
    wrong = []
    if ipam.get("IPv4Address") or ipam.get("IPv6Address"):
        wrong.append(IP_NEEDS_USER_DEFINED)
    if settings["Aliases"]:
        wrong.append(ALIAS_NEEDS_USER_DEFINED)
    return wrong


def _wrong_addresses(ipam: IPAMConfig) -> list[str]:
    """Refuse addresses of the wrong kind. That they are addresses at all was checked when the body was read."""
    wrong = []
    ipv4, ipv6 = ipam.get("IPv4Address") or "", ipam.get("IPv6Address") or ""
    if ipv4 and (":" in ipv4 or ipv4 == "0.0.0.0"):
        wrong.append(f"invalid IPv4 address: {ipv4}")
    if ipv6 and (":" not in ipv6 or "%" in ipv6 or not ipv6.strip(":0")):
        wrong.append(f"invalid IPv6 address: {ipv6}")
    wrong += [f"invalid link-local IP address: {each}" for each in ipam.get("LinkLocalIPs") or () if not each]
    return wrong


def _wrong_options(options: dict[str, str] | None) -> list[str]:
    if not options:
        return []
    return endpointoptions.problems(options)


def check_beside(engine: EndpointParts, container: Container, network: Network) -> None:
    """Raise Invalid where a container cannot have this network beside those that it has."""
    mode = container.host_config["NetworkMode"]
    if mode.startswith("container:"):
        raise Invalid(SHARES_A_NETWORK)
    if mode != "host" and network.driver == "host":
        raise Invalid(_NOT_ON_HOST)
    for name, settings in container.networking.items():
        other = find(engine, settings["NetworkID"] or name)
        if other is None or other.id == network.id:
            continue
        if "host" in (other.driver, network.driver):
            raise Invalid(SHARES_A_NETWORK)
        if NONE in (other.name, network.name):
            raise Invalid(_WITH_NONE)


def for_join(container: Container, network: Network, settings: EndpointSettings) -> EndpointSettings:
    """The container's settings of one network for this run, with its DNSNames."""
    return {**settings, "DNSNames": dns_names(container, settings) if network.user_defined else None}


def dns_names(container: Container, settings: EndpointSettings) -> list[str]:
    """The names of a container in a user-defined network, the one that it is shown by first."""
    names = [container.name, *(settings["Aliases"] or ()), container.id[:_SHORT], container.config["Hostname"]]
    return list(dict.fromkeys(name for name in names if name))

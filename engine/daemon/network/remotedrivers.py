"""Network and IPAM drivers that are plugins: what is asked of them, and what their answers mean for the records.

Runs in the daemon's threads, and never under a lock: a plugin may take its time. Loaded with the first network of such
a driver. docker's documents of libnetwork ("remote drivers", "IPAM drivers") say what the methods do. Of an answer
each value is looked at here; none is passed on as it is.
"""

import contextlib
import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence

from engine.annotating import Any
from engine.daemon.network import gateways, joining
from engine.daemon.network.addresses import Subnet, canonical, parse_address, show_address
from engine.daemon.network.create import AskedNetwork
from engine.daemon.network.drivers import options
from engine.daemon.network.record import (
    IPAM_DRIVERS,
    LEADS,
    LOCAL,
    ROUTES,
    SOURCE,
    AskedEndpoint,
    Endpoint,
    Network,
    Pair,
    Pool,
)
from engine.daemon.plugins.activation import IPAM, NETWORKS, SECONDS, Plugin, Plugins
from engine.daemon.store import networks as table
from engine.daemon.store.database import Database
from engine.dataclass import replace
from engine.errors import EngineError, SystemFailure
from engine.plugins.call import Missing, Object

log = logging.getLogger(__name__)

_GENERIC, _INTERNAL, _IPV4, _IPV6 = (
    f"com.docker.network.{name}" for name in ("generic", "internal", "enable_ipv4", "enable_ipv6")
)
_GATEWAY = {"RequestAddressType": "com.docker.network.gateway"}
_MAC = "com.docker.network.endpoint.macaddress"
_NO_PROXY = "com.docker.network.driver.private.no_proxy_6to4"  # another endpoint has the way out over IPv6
_NO_WAY = "driver failed programming external connectivity on endpoint"
_OPTIONAL = (
    (IPAM, "GetCapabilities"),
    (NETWORKS, "ProgramExternalConnectivity"),
    (NETWORKS, "RevokeExternalConnectivity"),
)
# For a plugin that is told of an end, and how long one that did not answer then is told of none: a daemon's start and
# the end of a container wait for it.
_PATIENCE, _SILENCE = 3.0, 30.0
_MOST_ROUTES = 256
_NEXT_HOP, _CONNECTED = 0, 1
_SCOPES = ("local", "global")

Fixed = dict[int, tuple[str, int]]
"""By version of IP, an endpoint's address from a plugin, and its prefix length."""


class Drivers:
    """The drivers that are plugins. database: keeps the plugins' names for pools of addresses"""

    def __init__(self, plugins: Plugins, database: Database) -> None:
        self._plugins = plugins
        self._database = database
        self._silent: dict[str, float] = {}

    @contextlib.contextmanager
    def creating(self, asked: AskedNetwork) -> Iterator[AskedNetwork]:
        """Around the making of a network's record: the request with pools that an IPAM plugin has given.

        These go back where the block fails. Raises NotFound, SystemFailure, Invalid.
        """
        skips = (False, False)
        scope = ""
        if asked.driver not in LOCAL:
            skips, scope = self._capabilities(asked)
        asked = replace(asked, outsourced=asked.driver not in LOCAL, gateways=(not skips[0], not skips[1]))
        if asked.ipam_driver in IPAM_DRIVERS:
            yield asked
            return
        plugin = self._plugins.get(asked.ipam_driver, IPAM)
        taken: list[tuple[Pool, str]] = []
        try:
            space = _text(_ipam(plugin, "GetDefaultAddressSpaces"), f"{scope.title() or 'Local'}DefaultAddressSpace")
            for version, enabled in ((4, asked.ipv4), (6, asked.ipv6)):
                config = [pool for pool in asked.config if (":" in pool.subnet) == (version == 6)]
                for pool in (config or [Pool("")]) if enabled else ():
                    self._take(plugin, asked, space, version, pool, skips[version == 6], taken)
            pools = tuple(pool for pool, _ in taken)
            yield replace(asked, config=pools, pool_ids=tuple(key for _, key in taken))
        except BaseException:
            self._give_back(plugin, taken)
            raise

    def _capabilities(self, asked: AskedNetwork) -> tuple[tuple[bool, bool], str]:
        """Whether the driver wants no gateway for IPv4 and for IPv6, and its scope."""
        plugin = self._plugins.get(asked.driver, NETWORKS)
        told = _network(plugin, "GetCapabilities")
        scope = _text(told, "Scope")
        if scope not in _SCOPES:
            raise SystemFailure(f"invalid capability: expecting 'local' or 'global', got {scope}")
        if told.get("GwAllocChecker") is not True:
            return (False, False), scope
        skips = _network(plugin, "GwAllocCheck", {"Options": _options(asked)})
        return (skips.get("SkipIPv4") is True, skips.get("SkipIPv6") is True), scope

    def _take(
        self,
        plugin: Plugin,
        asked: AskedNetwork,
        space: str,
        version: int,
        pool: Pool,
        without_gateway: bool,
        taken: list[tuple[Pool, str]],
    ) -> None:
        """Request a pool, its gateway and its auxiliary addresses; it is in `taken` as soon as it is to go back."""
        wanted = {"AddressSpace": space, "Pool": pool.subnet, "SubPool": pool.ip_range, "V6": version == 6}
        told = _ipam(plugin, "RequestPool", {**wanted, "Options": asked.ipam_options or {}})
        key, subnet = _text(told, "PoolID"), _subnet(_text(told, "Pool"), version)
        made = Pool(str(subnet), pool.ip_range)
        taken.append((made, key))
        data = told.get("Data")
        gateway = pool.gateway
        if not gateway and isinstance(data, dict) and _text(data, _GATEWAY["RequestAddressType"]):
            made = replace(made, gateway=_cidr(_text(data, _GATEWAY["RequestAddressType"]), version)[0])
        elif gateway or not without_gateway:
            made = replace(made, gateway=self._address(plugin, key, version, gateway, _GATEWAY)[0])
        taken[-1] = made, key
        for name, address in pool.aux.items():
            made = replace(made, aux={**made.aux, name: self._address(plugin, key, version, address, {})[0]})
            taken[-1] = made, key

    def _address(
        self, plugin: Plugin, key: str, version: int, address: str, given: Mapping[str, str]
    ) -> tuple[str, int]:
        told = _ipam(plugin, "RequestAddress", {"PoolID": key, "Address": address, "Options": dict(given)})
        return _cidr(_text(told, "Address"), version)

    def _give_back(self, plugin: Plugin, taken: Sequence[tuple[Pool, str]]) -> None:
        for pool, key in taken:
            for address in filter(None, (pool.gateway, *pool.aux.values())):
                _try(plugin, IPAM, "ReleaseAddress", {"PoolID": key, "Address": address})
            _try(plugin, IPAM, "ReleasePool", {"PoolID": key})

    def created(self, network: Network, pool_ids: Sequence[str]) -> None:
        """Have the driver make a network whose record is there. Raises NotFound, SystemFailure."""
        if pool_ids:
            with self._database.transaction(durable=True) as connection:
                table.save_pool_ids(connection, network.id, pool_ids)
        if not network.outsourced:
            return
        data: dict[int, list[Object]] = {4: [], 6: []}
        for pool in network.pools:
            bits = pool.subnet.rpartition("/")[2]
            auxiliary = {name: f"{address}/{bits}" for name, address in pool.aux.items()}
            shown: Object = {"AddressSpace": "LocalDefault", "Pool": pool.subnet, "AuxAddresses": auxiliary}
            if pool.gateway:
                shown["Gateway"] = f"{pool.gateway}/{bits}"
            data[6 if ":" in pool.subnet else 4].append(shown)
        given = _options(network)
        arguments = {"NetworkID": network.id, "Options": given, "IPv4Data": data[4], "IPv6Data": data[6]}
        try:
            _network(self._plugins.get(network.driver, NETWORKS), "CreateNetwork", arguments)
        except BaseException:
            self._drop_pool_ids(network)
            raise

    def removed(self, network: Network) -> None:
        """Tell the plugins that a network is gone. A failure is logged."""
        if network.outsourced:
            self._tell(network.driver, NETWORKS, "DeleteNetwork", {"NetworkID": network.id})
        if not network.addressed:
            try:
                plugin = self._plugins.get(network.ipam_driver, IPAM, patience=_PATIENCE)
            except EngineError as error:
                log.warning("network %s: its addresses cannot be given back: %s", network.name, error)
            else:
                self._give_back(plugin, list(zip(network.pools, self._pool_ids(network), strict=False)))
        self._drop_pool_ids(network)

    def addressed(self, network: Network, asked: AskedEndpoint, ipv6: bool) -> tuple[AskedEndpoint, Fixed]:
        """An endpoint's addresses from the network's IPAM plugin, and what is asked of the endpoint then.

        Raises NotFound, SystemFailure, Invalid; then none is taken.
        """
        plugin = self._plugins.get(network.ipam_driver, IPAM)
        given = {}
        if _ipam(plugin, "GetCapabilities").get("RequiresMACAddress") is True:
            mac = joining.mac_address(asked["MacAddress"])
            asked = {**asked, "MacAddress": mac}
            given[_MAC] = mac
        config = asked["IPAMConfig"] or {}
        wanted = {4: config.get("IPv4Address") or "", 6: config.get("IPv6Address") or ""}
        found: Fixed = {}
        try:
            for pool, key in zip(network.pools, self._pool_ids(network), strict=False):
                version = 6 if ":" in pool.subnet else 4
                if version not in found and (version == 4 or ipv6):
                    found[version] = self._address(plugin, key, version, wanted[version], given)
        except BaseException:
            self.freed(network, [address for address, _ in found.values()])
            raise
        return asked, found

    def freed(self, network: Network, addresses: Sequence[str]) -> None:
        """Give addresses back to the network's IPAM plugin. A failure is logged."""
        for pool, key in zip(network.pools, self._pool_ids(network), strict=False):
            for address in addresses:
                if address and (":" in address) == (":" in pool.subnet):
                    given = {"PoolID": key, "Address": address}
                    self._tell(network.ipam_driver, IPAM, "ReleaseAddress", given)

    def make_endpoint(self, network: Network, endpoint: Endpoint, given: Mapping[str, Any]) -> Endpoint:
        """Have the driver make an endpoint; the record with what it has chosen. Raises NotFound, SystemFailure."""
        own = {
            "Address": _shown(endpoint.ipv4, endpoint.prefix4),
            "AddressIPv6": _shown(endpoint.ipv6, endpoint.prefix6),
        }
        arguments = {
            "NetworkID": network.id,
            "EndpointID": endpoint.id,
            "Interface": {**own, "MacAddress": endpoint.mac},
            "Options": {**given, **endpoint.driver_opts},
        }
        told = _network(self._plugins.get(network.driver, NETWORKS), "CreateEndpoint", arguments).get("Interface")
        try:
            return _chosen(endpoint, told if isinstance(told, dict) else {})
        except EngineError:
            self._tell(network.driver, NETWORKS, "DeleteEndpoint", _of(endpoint))
            raise

    def join(self, pairs: Sequence[Pair], key: str, ports: Object) -> tuple[Pair, ...]:
        """Have the drivers join endpoints to the container's network; each with its interface, gateways and routes.

        key: the path of the network namespace; ports: what is told of the container's
        Raises NotFound, SystemFailure, Invalid.
        """
        found = []
        for network, endpoint in pairs:
            if network.outsourced:
                plugin = self._plugins.get(network.driver, NETWORKS)
                told = _network(plugin, "Join", {**_of(endpoint), "SandboxKey": key, "Options": ports})
                endpoint = _joined(endpoint, told)
            found.append((network, endpoint))
        return tuple(found)

    def lead_out(self, pairs: Sequence[Pair], ports: Object | None) -> Iterator[Endpoint]:
        """Tell the drivers of endpoints that have come to have a default route; without `ports`, of those that lost it.

        Yields the records that are other then. Raises NotFound, SystemFailure; a loss that fails is logged.
        """
        ipv4, ipv6 = gateways.choose_gateways(pairs)
        for network, endpoint in pairs:
            chosen = {"4": ipv4, "6": ipv6}.items()
            leads = "".join(version for version, each in chosen if each is not None and each.id == endpoint.id)
            if not network.outsourced or leads == endpoint.driver_opts.get(LEADS, "") or bool(leads) == (ports is None):
                continue
            if ports is None:
                self._tell(network.driver, NETWORKS, "RevokeExternalConnectivity", _of(endpoint))
            else:
                elsewhere = {_NO_PROXY: True} if ipv6 is not None and "6" not in leads else {}
                given = {**_of(endpoint), "Options": {**ports, **elsewhere}}
                try:
                    _network(self._plugins.get(network.driver, NETWORKS), "ProgramExternalConnectivity", given)
                except EngineError as error:
                    name = endpoint.names[0] if endpoint.names else endpoint.container[:12]
                    raise type(error)(f"{_NO_WAY} {name} ({endpoint.id}): {error}") from error
            yield replace(endpoint, driver_opts={**endpoint.driver_opts, LEADS: leads})

    def left(self, network: Network, endpoint: Endpoint) -> None:
        """Tell the plugins that an endpoint is gone. A failure is logged."""
        if network.outsourced:
            if endpoint.driver_opts.get(LEADS):
                self._tell(network.driver, NETWORKS, "RevokeExternalConnectivity", _of(endpoint))
            self._tell(network.driver, NETWORKS, "Leave", _of(endpoint))
            self._tell(network.driver, NETWORKS, "DeleteEndpoint", _of(endpoint))
        if not network.addressed:
            self.freed(network, [endpoint.ipv4, endpoint.ipv6])

    def _pool_ids(self, network: Network) -> list[str]:
        with self._database.transaction() as connection:
            return table.load_pool_ids(connection, network.id)

    def _drop_pool_ids(self, network: Network) -> None:
        with self._database.transaction(durable=True, frees=True) as connection:
            table.delete_pool_ids(connection, network.id)

    def _tell(self, name: str, kind: str, method: str, arguments: Object) -> None:
        began = time.monotonic()
        if began < self._silent.get(name, 0.0):
            log.warning("the driver %s is not told of %s, since it did not answer before", name, method)
            return
        try:
            plugin = self._plugins.get(name, kind, patience=_PATIENCE)
        except EngineError as error:
            log.warning("the driver %s is not told of %s: %s", name, method, error)
        else:
            _try(plugin, kind, method, arguments)
        ended = time.monotonic()
        if ended - began > _PATIENCE / 2:
            self._silent[name] = ended + _SILENCE


def _try(plugin: Plugin, kind: str, method: str, arguments: Object) -> None:
    try:
        _ask(plugin, kind, method, arguments, patience=_PATIENCE)
    except EngineError as error:
        log.warning("the driver %s has not done %s: %s", plugin.name, method, error)


def _network(plugin: Plugin, method: str, arguments: Object | None = None) -> Object:
    return _ask(plugin, NETWORKS, method, arguments)


def _ipam(plugin: Plugin, method: str, arguments: Object | None = None) -> Object:
    return _ask(plugin, IPAM, method, arguments)


def _ask(plugin: Plugin, kind: str, method: str, arguments: Object | None, patience: float | None = None) -> Object:
    try:
        told = plugin.call(f"{kind}.{method}", arguments, SECONDS if patience is None else patience, patience)
    except Missing:
        if (kind, method) not in _OPTIONAL:
            raise
        return {}
    if error := _text(told, "Error"):  # what an IPAM driver calls its Err
        raise SystemFailure(f"remote: {error[:1000]}")
    return told


def _of(endpoint: Endpoint) -> Object:
    return {"NetworkID": endpoint.network, "EndpointID": endpoint.id}


def _options(of: AskedNetwork | Network) -> Object:
    told: Object = {_GENERIC: dict(of.options), _IPV4: of.ipv4, _IPV6: of.ipv6}
    return {**told, _INTERNAL: True} if of.internal else told


def _chosen(endpoint: Endpoint, told: Object) -> Endpoint:
    """The endpoint with what the driver has chosen. Raises SystemFailure where that was not to be chosen any more."""
    for version, key in ((4, "Address"), (6, "AddressIPv6")):
        if not (text := _text(told, key)):
            continue
        if endpoint.ipv6 if version == 6 else endpoint.ipv4:
            raise SystemFailure("driver modified interface address: endpoint interface IP present")
        address, bits = _cidr(text, version)
        changed: dict[str, Any] = {f"ipv{version}": address, f"prefix{version}": bits}
        endpoint = replace(endpoint, **changed)
    if mac := _text(told, "MacAddress"):
        if endpoint.mac:
            raise SystemFailure("driver modified interface MAC address: endpoint interface MAC address present")
        endpoint = replace(endpoint, mac=joining.mac_address(mac))
    return endpoint


def _joined(endpoint: Endpoint, told: Object) -> Endpoint:
    names = told.get("InterfaceName")
    source, name, prefix = (
        _text(names if isinstance(names, dict) else {}, k) for k in ("SrcName", "DstName", "DstPrefix")
    )
    if source:
        options.check_name(source)
        options.check_name(name or f"{prefix or 'eth'}0")
    routes = []
    listed = told.get("StaticRoutes")
    for each in (listed if isinstance(listed, list) else [])[:_MOST_ROUTES]:
        route = each if isinstance(each, dict) else {}
        subnet, hop = _subnet(_text(route, "Destination")), _text(route, "NextHop")
        if route.get("RouteType", _NEXT_HOP) not in (_NEXT_HOP, _CONNECTED) or (
            route.get("RouteType", _NEXT_HOP) == _NEXT_HOP and not hop
        ):
            raise SystemFailure(f"invalid static route to {subnet}")
        routes.append((show_address(subnet.version, subnet.first), subnet.bits, _plain(hop) if hop else ""))
    gateways = {}
    for version, key in ((4, "Gateway"), (6, "GatewayIPv6")):
        text = _text(told, key)
        gateways[version] = _plain(text, version, key) if text else ""
    number = endpoint.interface[len(endpoint.interface.rstrip("0123456789")) :] or "0"
    wanted = name or (f"{prefix}{number}" if prefix else endpoint.interface)
    kept = {SOURCE: source, ROUTES: json.dumps(routes)}
    return replace(
        endpoint,
        gateway4=gateways[4],
        gateway6=gateways[6],
        interface=wanted if source else "",
        driver_opts={**endpoint.driver_opts, **kept},
    )


def _text(told: Mapping[str, Any], key: str) -> str:
    value = told.get(key)
    return value if isinstance(value, str) else ""


def _plain(text: str, version: int = 0, key: str = "address") -> str:
    """An address in its canonical text. Raises SystemFailure."""
    try:
        found, number = parse_address(text)
    except ValueError:
        found, number = -1, 0
    if found not in ((version,) if version else (4, 6)):
        raise SystemFailure(f'unable to parse {key} "{text[:100]}"')
    return show_address(found, number)


def _cidr(text: str, version: int) -> tuple[str, int]:
    """An address and its prefix length. Raises SystemFailure."""
    subnet = _subnet(text, version)
    return canonical(text.partition("/")[0]), subnet.bits


def _subnet(text: str, version: int = 0) -> Subnet:
    try:
        subnet = Subnet.parse(text)
    except ValueError:
        subnet = None
    if subnet is None or version not in (0, subnet.version):
        raise SystemFailure(f"invalid CIDR address: {text[:100]}")
    return subnet


def _shown(address: str, bits: int) -> str:
    return f"{address}/{bits}" if address else ""

"""POST /networks/create: checks the body as dockerd does, in its order and words, and makes the new network's record.

Runs in the daemon's request threads. `AskedNetwork` is pure. `make` runs under the lock of `networks.Networks`, and the
caller puts its result into the database.
"""

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from engine.daemon.network import pools, subnets
from engine.daemon.network.drivers import choice
from engine.daemon.network.record import BUILTIN, Network, Pool
from engine.daemon.network.surroundings import Surroundings
from engine.dataclass import dataclass, replace
from engine.errors import Forbidden, Invalid, NotFound
from engine.literals import boolean, quoted
from engine.settings.every import Settings

_CONFIGURATION_ONLY = (
    "configuration network can only contain network specific fields. Network operator fields like"
    " [ ingress | internal | attachable | scope ] are not supported."
)
_ENABLE = {4: "com.docker.network.enable_ipv4", 6: "com.docker.network.enable_ipv6"}


@dataclass(frozen=True, slots=True)
class AskedNetwork:
    """The network that a client asks for, checked as far as that needs no look at the existing networks."""

    name: str
    driver: str
    scope: str
    ipv4: bool
    ipv6: bool
    internal: bool
    attachable: bool
    ingress: bool
    config_only: bool
    config_from: str
    ipam_driver: str
    ipam_options: dict[str, str] | None
    config: tuple[Pool, ...]
    options: dict[str, str]
    labels: dict[str, str]
    # What plugins have said meanwhile, see `remotedrivers`.
    outsourced: bool = False
    gateways: tuple[bool, bool] = (True, True)
    pool_ids: tuple[str, ...] = ()

    @classmethod
    def read(cls, body: Mapping[str, Any], settings: Settings) -> "AskedNetwork":
        """The request from the decoded body. settings: the daemon's, for `default_network_opts`.

        Raises Invalid, Forbidden.
        """
        name = body.get("Name") or ""
        if name == "container" or name.startswith("container:"):
            raise Forbidden(f"network name {quoted(name)} is reserved and cannot be created")
        if name in (*BUILTIN, "default"):
            raise Forbidden(f"operation is not permitted on predefined {name} network ")
        driver = body.get("Driver") or "bridge"
        choice.check_local(driver)
        options = dict(body.get("Options") or {})
        if body.get("ConfigFrom") is None:
            options = {**_default_options(settings, driver), **options}
        ipv4 = _enabled(4, body.get("EnableIPv4"), options, default=True)
        ipv6 = _enabled(6, body.get("EnableIPv6"), options, default=False)
        ipam = body.get("IPAM") or {}
        config = subnets.read(ipam.get("Config") or (), ipv6)
        if not name.strip():
            raise Invalid("invalid name: name is empty")
        return cls(
            name=name,
            driver=driver,
            scope=body.get("Scope") or "",
            ipv4=ipv4,
            ipv6=ipv6,
            internal=bool(body.get("Internal")),
            attachable=bool(body.get("Attachable")),
            ingress=bool(body.get("Ingress")),
            config_only=bool(body.get("ConfigOnly")),
            config_from=(body.get("ConfigFrom") or {}).get("Network") or "",
            ipam_driver=ipam.get("Driver") or "default",
            ipam_options=ipam.get("Options"),
            config=config,
            options=options,
            labels=dict(body.get("Labels") or {}),
        )


def _default_options(settings: Settings, driver: str) -> dict[str, str]:
    found = {}
    for text in settings.default_network_opts:
        name, _, option = text.partition("=")
        if name == driver:
            key, _, value = option.partition("=")
            found[key] = value
    return found


def _enabled(version: int, asked: bool | None, options: dict[str, str], *, default: bool) -> bool:
    name = _ENABLE[version]
    if asked is not None:
        options.pop(name, None)
        return asked
    if name not in options:
        return default
    try:
        return boolean(options[name])
    except Invalid:
        raise Invalid(f'driver-opt "{name}" is not a valid bool') from None


def make(
    asked: AskedNetwork, known: list[Network], around: Surroundings, settings: Settings, engine_id: str
) -> Network:
    """The network with its subnets, gateways and device's name.

    known: all existing networks. Raises Invalid, Forbidden, NotFound, EngineError in docker's words.
    """
    _check_configuration(asked)
    network = Network(
        id=os.urandom(32).hex(),
        name=asked.name,
        driver=asked.driver,
        created_ns=time.time_ns(),
        scope=asked.scope or "local",
        ipv4=asked.ipv4,
        ipv6=asked.ipv6,
        internal=asked.internal,
        attachable=asked.attachable,
        config_only=asked.config_only,
        config_from=asked.config_from,
        ipam_driver=asked.ipam_driver,
        ipam_options=asked.ipam_options,
        pools=tuple(pool for pool in asked.config if pool.subnet),
        options=asked.options,
        labels=asked.labels,
    )
    if asked.config_only:
        return replace(network, driver="null")
    driver = None if asked.outsourced else choice.find(asked.driver)
    _check_scope(asked)
    if asked.config_from:
        network = _configured(network, known)
    if not network.addressed and not asked.pool_ids:
        raise NotFound(f'plugin "{network.ipam_driver}" not found')
    if not network.wired:
        network = replace(network, pools=())
    elif network.addressed:
        sources = pools.sources(settings.default_address_pools, engine_id)
        gateways = driver.gateways(network) if driver else asked.gateways
        network = replace(network, pools=subnets.allocated(network, known, sources, around, gateways))
    if driver:
        driver.check(network, known)
        network = replace(network, device=driver.device(network))
    return network


def _check_configuration(asked: AskedNetwork) -> None:
    if asked.config_only and (asked.ingress or asked.internal or asked.attachable or asked.scope):
        raise Forbidden(_CONFIGURATION_ONLY)
    if not asked.config_from:
        return
    if asked.config_only:
        raise Forbidden("a configuration network cannot depend on another configuration network")
    given = asked.labels or asked.ipam_options or asked.config
    if given or asked.ipam_driver != "default" or not asked.ipv4 or asked.ipv6:
        raise Forbidden(
            "user-specified configurations are not supported if the network depends on a configuration network"
        )
    if asked.options:
        raise Forbidden("network driver options are not supported if the network depends on a configuration network")


def _check_scope(asked: AskedNetwork) -> None:
    if asked.ingress:
        raise Forbidden("Ingress network can only be global scope network")
    if asked.scope == "swarm":
        raise Forbidden("cannot create a swarm scoped network when swarm is not active")


def _configured(network: Network, known: Iterable[Network]) -> Network:
    """The network with the settings of its configuration network."""
    for other in known:
        if other.config_only and other.name == network.config_from:
            return replace(
                network,
                ipv4=other.ipv4,
                ipv6=other.ipv6,
                ipam_driver=other.ipam_driver,
                ipam_options=other.ipam_options,
                pools=other.pools,
                options=other.options,
                labels=other.labels,
            )
    raise NotFound(f'configuration network "{network.config_from}" does not exist')

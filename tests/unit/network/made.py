"""What the tests of networks make again and again: settings, endpoint settings, networks of one data root."""

from types import SimpleNamespace

from engine.daemon.network.networks import Networks
from engine.daemon.runtime.events import Events
from engine.daemon.store import networks as table
from engine.daemon.store.database import Database

DEFAULTS = {
    "bridge": "",
    "bip": "",
    "bip6": "",
    "fixed_cidr": "",
    "fixed_cidr_v6": "",
    "default_gateway": "",
    "default_gateway_v6": "",
    "ipv6": False,
    "mtu": "1500",
    "icc": True,
    "ip_masq": True,
    "ip": "0.0.0.0",
    "default_address_pools": (),
    "default_network_opts": (),
}


def settings(**changed: object) -> SimpleNamespace:
    """The daemon's settings, as far as networks read them."""
    return SimpleNamespace(**{**DEFAULTS, **changed})


def endpoint(address: str = "", address6: str = "", **changed: object) -> dict:
    """Complete EndpointSettings."""
    ipam = {key: text for key, text in (("IPv4Address", address), ("IPv6Address", address6)) if text}
    whole = {"IPAMConfig": ipam or None, "MacAddress": "", "GwPriority": 0, "DriverOpts": None, "DNSNames": None}
    return {**whole, **changed}


def subnet(text: str, **more: object) -> dict:
    """A part of a create's body: an IPAM of one subnet."""
    return {"IPAM": {"Config": [{"Subnet": text, **more}]}}


def opened(path: str, events: Events | None = None, **changed: object) -> Networks:
    """The networks of one data root, as each start of a daemon has them."""
    return Networks(Database(path, table.SCHEMA), settings(**changed), "the-engine", events or Events())

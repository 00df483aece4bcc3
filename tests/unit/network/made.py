"""What the tests of networks make again and again: endpoint settings, networks of one data root."""

from engine.daemon.network.networks import Networks
from engine.daemon.runtime.events import Events
from engine.daemon.store import networks as table
from engine.daemon.store.database import Database
from tests.harness import parts


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
    return Networks(Database(path, table.SCHEMA), parts.settings(**changed), "the-engine", events or Events())

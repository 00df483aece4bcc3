"""The database tables of networks and of containers' endpoints on them, with all of their SQL.

All functions take an open connection of `store.database` and run in the thread that holds it. A network needs a durable
transaction, because a client was told of it. An endpoint does not: it ends with its container, and so at the latest
with the power.
"""

import functools
import json
import sqlite3
from collections.abc import Iterable

from engine.annotating import Any
from engine.dataclass import fields
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded with the first row
    from engine.daemon.network import record
    from engine.daemon.network.record import Endpoint, Network
else:
    record = late("engine.daemon.network.record")

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS networks (
        id TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        created_ns INTEGER NOT NULL,
        settings TEXT NOT NULL) WITHOUT ROWID""",
    # The key is a number that the daemon keeps in memory. So a start and an end of a container write one page each, and
    # the order of the endpoints is kept.
    """CREATE TABLE IF NOT EXISTS endpoints (
        number INTEGER PRIMARY KEY,
        network TEXT NOT NULL,
        container TEXT NOT NULL,
        settings TEXT NOT NULL)""",
)

_IDENTITY = ("id", "name", "created_ns")
# `network` and `container` have columns of their own, and `ports` are records that are encoded for themselves.
_APART = ("network", "container", "ports")


@functools.cache
def _settings() -> tuple[str, ...]:
    """The fields of a network that stand in `settings`."""
    return tuple(field.name for field in fields(record.Network) if field.name not in _IDENTITY)


@functools.cache
def _plain() -> tuple[str, ...]:
    """The fields of an endpoint that stand in `settings`, before its ports."""
    return tuple(field.name for field in fields(record.Endpoint) if field.name not in _APART)


def save_network(connection: sqlite3.Connection, network: "Network") -> None:
    """Write a network; a row of the same id is replaced."""
    settings = {name: getattr(network, name) for name in _settings()}
    settings["pools"] = [[pool.subnet, pool.ip_range, pool.gateway, pool.aux] for pool in network.pools]
    connection.execute(
        "REPLACE INTO networks (id, name, created_ns, settings) VALUES (?, ?, ?, ?)",
        (network.id, network.name, network.created_ns, json.dumps(settings, separators=(",", ":"))),
    )


def delete_network(connection: sqlite3.Connection, network_id: str) -> None:
    """Delete the row of a network; its endpoints are not touched."""
    connection.execute("DELETE FROM networks WHERE id = ?", (network_id,))


_POOL_IDS = """CREATE TABLE IF NOT EXISTS pool_ids (
    network TEXT NOT NULL,
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (network, number)) WITHOUT ROWID"""
# Made with the first network of an IPAM driver that is a plugin, and so not a part of SCHEMA.


def save_pool_ids(connection: sqlite3.Connection, network_id: str, ids: Iterable[str]) -> None:
    """Write what an IPAM plugin calls the pools of a network, in the order of these."""
    connection.execute(_POOL_IDS)
    connection.executemany(
        "REPLACE INTO pool_ids (network, number, id) VALUES (?, ?, ?)",
        [(network_id, number, each) for number, each in enumerate(ids)],
    )


def load_pool_ids(connection: sqlite3.Connection, network_id: str) -> list[str]:
    """What an IPAM plugin calls the pools of a network."""
    connection.execute(_POOL_IDS)
    return [
        each
        for (each,) in connection.execute("SELECT id FROM pool_ids WHERE network = ? ORDER BY number", (network_id,))
    ]


def delete_pool_ids(connection: sqlite3.Connection, network_id: str) -> None:
    """Delete the names of a network's pools."""
    connection.execute(_POOL_IDS)
    connection.execute("DELETE FROM pool_ids WHERE network = ?", (network_id,))


def has_endpoints(connection: sqlite3.Connection) -> bool:
    """Whether there is a row of any endpoint."""
    return connection.execute("SELECT 1 FROM endpoints LIMIT 1").fetchone() is not None


def load_networks(connection: sqlite3.Connection) -> "list[Network]":
    """Every network, oldest first."""
    rows = connection.execute("SELECT id, name, created_ns, settings FROM networks ORDER BY created_ns")
    return [_network(*row) for row in rows]


def _network(identity: str, name: str, created_ns: int, text: str) -> "Network":
    settings = json.loads(text)
    settings["pools"] = tuple(record.Pool(*pool) for pool in settings["pools"])
    return record.Network(id=identity, name=name, created_ns=created_ns, **settings)


def save_endpoints(connection: sqlite3.Connection, numbered: "Iterable[tuple[int, Endpoint]]") -> None:
    """Write endpoints, each under its number; rows of the same numbers are replaced."""
    for number, endpoint in numbered:
        settings = [getattr(endpoint, name) for name in _plain()]
        ports = [[port.container_port, port.protocol, port.host_ip, port.host_port] for port in endpoint.ports]
        connection.execute(
            "REPLACE INTO endpoints (number, network, container, settings) VALUES (?, ?, ?, ?)",
            (number, endpoint.network, endpoint.container, json.dumps([*settings, ports], separators=(",", ":"))),
        )


def delete_endpoints(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Delete the rows of the endpoints with these numbers."""
    for number in numbers:
        connection.execute("DELETE FROM endpoints WHERE number = ?", (number,))


def load_endpoints(connection: sqlite3.Connection) -> "list[tuple[int, Endpoint]]":
    """(number, endpoint) of every endpoint, in the order of their numbers, which is the order of their creation."""
    rows = connection.execute("SELECT number, network, container, settings FROM endpoints ORDER BY number")
    return [(number, _endpoint(network, container, text)) for number, network, container, text in rows]


def _endpoint(network: str, container: str, text: str) -> "Endpoint":
    *plain, ports = json.loads(text)
    values: dict[str, Any] = {
        name: tuple(value) if type(value) is list else value for name, value in zip(_plain(), plain, strict=True)
    }
    values["ports"] = tuple(record.Published(*port) for port in ports)
    return record.Endpoint(network=network, container=container, **values)

"""Brings over dockerd's user-defined networks: their names, ids, subnets, options and labels.

dockerd keeps them in `network/files/local-kv.db`, one JSON document each, behind eight bytes of libkv's. A network's
device gets a name of its own here, since dockerd's bridge may still be on the host. The predefined networks are each
daemon's own.
"""

import time

from engine.daemon import jsontext, moments
from engine.daemon.api import body, schemas
from engine.daemon.jsontext import Object
from engine.daemon.network import create
from engine.daemon.network.record import BUILTIN, Network
from engine.daemon.network.surroundings import Surroundings
from engine.daemon.store import networks as table
from engine.dataclass import replace
from engine.errors import Invalid, NotFound
from engine.migrate.accounting import Telling
from engine.migrate.newroot import Target
from engine.migrate.oldroot import IDENTIFIER, Source

_FILE = "network/files/local-kv.db"
_BUCKET = b"libnetwork"
_KEY = b"docker/network/v1.0/network/"
_INDEX_BYTES = 8
_GENERIC = "com.docker.network.generic"
_MOST = 10_000


def bring(source: Source, target: Target, telling: Telling) -> None:
    """Bring over every user-defined network of this host whose name is free here."""
    with target.database.reading() as connection:
        known = table.load_networks(connection)
    for record in sorted(_records(source, telling), key=lambda each: bool(each.get("configFrom"))):
        name = str(record.get("name") or "")
        if name in BUILTIN:
            continue
        if any(network.name == name for network in known):
            telling.found("network", name)
            continue
        with telling.passing_over(f"network {name}"):
            network = _made(target, record, known)
            with target.database.transaction(durable=True) as connection:
                table.save_network(connection, network)
            known.append(network)
            telling.took("network", name)


def _records(source: Source, telling: Telling) -> list[Object]:
    found: list[Object] = []
    try:
        with source.bolt(_FILE) as file:
            bucket = file.root.bucket(_BUCKET)
            for key, value in bucket.values() if bucket is not None else ():
                if not key.startswith(_KEY) or len(found) == _MOST:
                    continue
                with telling.passing_over(f"network {key.removeprefix(_KEY).decode('utf-8', 'replace')[:12]}"):
                    record = jsontext.parse(value[_INDEX_BYTES:], "record of a network")
                    if isinstance(record, dict):
                        found.append(record)
    except NotFound:
        pass  # that dockerd had no networks
    except Invalid as error:
        telling.lacks("the networks", error)
    return found


def _made(target: Target, record: Object, known: list[Network]) -> Network:
    identity = str(record.get("id") or "")
    if not IDENTIFIER.fullmatch(identity):
        raise Invalid("it has no id")
    if record.get("scope") not in (None, "", "local"):
        raise Invalid(f"its scope is {record['scope']}, and there are no swarms here")
    asked = create.AskedNetwork.read(body.decode(_dumped(_body(record)), schemas.NETWORK_CREATE), target.settings)
    network = create.make(asked, known, Surroundings(), target.settings, target.engine_id)
    created = record.get("created")
    made_ns = moments.parse(created, 0) if isinstance(created, str) else 0
    return replace(network, id=identity, created_ns=made_ns if made_ns > 0 else time.time_ns())


def _dumped(document: Object) -> bytes:
    import json  # nothing else of this process writes JSON

    return json.dumps(document).encode()


def _body(record: Object) -> Object:
    """The body of POST /networks/create that would make this network."""
    generic = record.get("generic")
    options = generic.get(_GENERIC) if isinstance(generic, dict) else None
    subnets = [*_subnets(record, "ipamV4"), *_subnets(record, "ipamV6")]
    config_only = bool(record.get("configOnly"))
    return {
        "Name": record.get("name"),
        "Driver": record.get("networkType") or None,
        "EnableIPv6": bool(record.get("enableIPv6")),
        "Internal": bool(record.get("internal")),
        "Attachable": bool(record.get("attachable")),
        "ConfigOnly": config_only,
        "ConfigFrom": {"Network": record["configFrom"]} if record.get("configFrom") else None,
        "Options": {str(key): str(value) for key, value in options.items()} if isinstance(options, dict) else None,
        "Labels": record.get("labels"),
        "IPAM": {"Driver": record.get("ipamType"), "Options": record.get("ipamOptions"), "Config": subnets},
    }


def _subnets(record: Object, version: str) -> list[Object]:
    """The subnets of one version: what was asked for, and where nothing was, what dockerd chose."""
    asked, chosen = _list(record.get(f"{version}Config")), _list(record.get(f"{version}Info"))
    found = []
    for place in range(max(len(asked), len(chosen))):
        wanted = asked[place] if place < len(asked) else {}
        given = _given(chosen[place]) if place < len(chosen) else {}
        subnet = wanted.get("PreferredPool") or given.get("Pool")
        if subnet:
            gateway = wanted.get("Gateway") or str(given.get("Gateway") or "").partition("/")[0]
            found.append(
                {
                    "Subnet": subnet,
                    "IPRange": wanted.get("SubPool") or "",
                    "Gateway": gateway,
                    "AuxiliaryAddresses": wanted.get("AuxAddresses") or None,
                }
            )
    return found


def _list(text: object) -> list[Object]:
    """A list of objects that stands in the record as a text."""
    found = jsontext.parse(text, "subnets of a network") if isinstance(text, str) and text else []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _given(info: Object) -> Object:
    data = info.get("IPAMData")
    found = jsontext.parse(data, "subnet of a network") if isinstance(data, str) and data else {}
    return found if isinstance(found, dict) else {}

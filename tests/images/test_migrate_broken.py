"""`engine migrate` where records of a dockerd's are broken: each is named and passed over, and all others come."""

import copy
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running
from tests.images.test_migrate import migrate
from tests.unit.migrate.test_bolt import leaf, meta, page

pytestmark = pytest.mark.root

CONFIG: dict[str, Any] = {
    "ID": "",
    "Name": "/whole",
    "Created": "2026-01-02T03:04:05.5Z",
    "Path": "sh",
    "Args": ["-c", "true"],
    "Driver": "overlay2",
    "Image": "",
    "RestartCount": 1,
    "HasBeenManuallyStopped": False,
    "State": {
        "Running": False,
        "ExitCode": 3,
        "Error": "",
        "StartedAt": "2026-01-02T03:04:06Z",
        "FinishedAt": "2026-01-02T03:04:07Z",
    },
    "Config": {"Image": "", "Cmd": ["sh"], "Env": ["A=b"], "Labels": {"l": "m"}, "WorkingDir": "/"},
    "NetworkSettings": {"Networks": {"none": {"Aliases": ["x"], "IPAMConfig": None, "MacAddress": ""}}},
    "MountPoints": {"/b": {"Type": "bind", "Destination": "/b", "Source": "/tmp", "RW": True, "Spec": {}}},
}
HOST: dict[str, Any] = {
    "NetworkMode": "none",
    "LogConfig": {"Type": "json-file", "Config": {}},
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "Links": None,
}
FAR = "9999-12-31T23:59:59Z"
VALUES = (5, "x", [5], {"x": 5}, -1, 10**30, FAR, "\ud800", True)


def places(document: dict[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The way to each value in a document."""
    for key, value in document.items():
        yield (*before, key)
        if isinstance(value, dict):
            yield from places(value, (*before, key))


def changed(document: dict[str, Any], place: tuple[str, ...], value: object) -> dict[str, Any]:
    """The document with another value."""
    made = copy.deepcopy(document)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return made


def write(root: Path, number: int, config: object, host: object) -> str:
    """A container of dockerd's; its id."""
    identity = f"{number:064x}"
    for place in (f"containers/{identity}", f"image/overlay2/layerdb/mounts/{identity}", f"overlay2/{number}/diff"):
        (root / place).mkdir(parents=True)
    (root / "image/overlay2/layerdb/mounts" / identity / "mount-id").write_text(str(number))
    for name, document in (("config.v2.json", config), ("hostconfig.json", host)):
        text = document if isinstance(document, str) else json.dumps(document)
        (root / "containers" / identity / name).write_text(text)
    return identity


def bolt(path: Path, bucket: bytes, records: list[tuple[bytes, bytes]]) -> None:
    """A store with one bucket of records."""
    records.sort()
    inside = struct.pack("<QQ", 0, 0) + leaf(0, *((0, *each) for each in records), bare=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(meta(0, 3, 6) + meta(1, 3, 7) + page(2, 16, 0, b"") + leaf(3, (1, bucket, inside)))


def network(number: int, **other: object) -> tuple[bytes, bytes]:
    """A network's record."""
    identity = f"{number:064x}"
    info = json.dumps([{"IPAMData": json.dumps({"Pool": f"10.218.{number}.0/24"})}])
    told = {"name": f"net{number}", "id": identity, "networkType": "bridge", "ipamType": "default", "ipamV4Info": info}
    return b"docker/network/v1.0/network/" + identity.encode(), b"12345678" + json.dumps(told | other).encode()


@pytest.fixture
def daemon(world: World) -> Daemon:
    return world.daemon()


def brought(root: Path, daemon: Daemon) -> tuple[str, set[str]]:
    """What the command says, and the names of what is not taken."""
    done = migrate(root, daemon)
    assert done.returncode == 0 and not done.stderr, (done.stdout[-2000:], done.stderr)
    return done.stdout, set(re.findall(r"^NOT TAKEN: ([^:]*):", done.stdout, re.MULTILINE))


def test_a_broken_record_of_a_container_is_named_and_passed_over(daemon: Daemon, tmp_path: Path) -> None:
    """Each field in turn, with each value that it should not have; the last one of all is whole."""
    odd = {}
    for document, other in ((CONFIG, False), (HOST, True)):
        for place in places(document):
            for value in VALUES if place[0] not in ("Name", "ID") else ():
                broken = changed(document, place, value)
                number = len(odd) + 1
                named = {**(CONFIG if other else broken), "Name": f"/odd{number}"}
                write(tmp_path, number, named, broken if other else HOST)
                odd[f"odd{number}"] = (place, value)
    for number, text in enumerate(("", "[]", "{", '{"Name": 5}', "[" * 100_000, '{"a":' * 100_000), 1001):
        write(tmp_path, number, text, HOST)
    write(tmp_path, 2000, CONFIG, HOST)
    said, lacking = brought(tmp_path, daemon)
    assert "container whole" in said.splitlines()
    came = {name for name in odd if f"container {name}" in said.splitlines()}
    missing = {name for name in odd if f"container {name}" in lacking}
    assert came | missing == odd.keys() and not came & missing
    refused = [odd[name] for name in missing]
    for broken in ((("Args",), 5), (("Created",), FAR), (("State", "StartedAt"), FAR), (("State", "FinishedAt"), FAR)):
        assert broken in refused
    with running(daemon):
        shown = daemon.request("GET", "/containers/json?all=1").json()
        assert {name for each in shown for name in each["Names"]} == {f"/{name}" for name in (*came, "whole")}
        assert daemon.inspect("whole")["State"]["ExitCode"] == 3
        wrong = {str(odd[name]): daemon.request("GET", f"/containers/{name}/json", checked=False) for name in came}
        assert not {place: answer.message for place, answer in wrong.items() if answer.status != 200}


def test_a_broken_record_of_a_network_or_a_volume_is_named_and_passed_over(daemon: Daemon, tmp_path: Path) -> None:
    keys = (
        "networkType",
        "ipamType",
        "ipamV4Info",
        "ipamV4Config",
        "labels",
        "generic",
        "created",
        "scope",
        "enableIPv6",
    )
    odd = [network(number, **{key: value}) for number, (key, value) in enumerate(_each(keys), 10)]
    whole, torn = network(250), (network(5)[0], b"12345678{")
    bolt(tmp_path / "network/files/local-kv.db", b"libnetwork", [*odd, whole, torn])
    (tmp_path / "containers/x").mkdir(parents=True)
    for name in ("torn", "odd", "whole"):
        (tmp_path / "volumes" / name / "_data").mkdir(parents=True)
    labels = [
        (b"torn", b"{"),
        (b"odd", b'{"Labels": 5, "Options": [7], "Driver": 8}'),
        (b"whole", b'{"Labels":{"a":"b"}}'),
    ]
    bolt(tmp_path / "volumes/metadata.db", b"volumes", labels)
    said, lacking = brought(tmp_path, daemon)
    lines = said.splitlines()
    assert {"network net250", "volume whole", "volume torn"} <= set(lines)
    assert {f"network {5:064x}"[:20], "the labels of volume torn"} <= lacking
    with running(daemon):
        volumes = {each["Name"]: each["Labels"] for each in daemon.request("GET", "/volumes").json()["Volumes"]}
        assert volumes["whole"] == {"a": "b"} and "torn" in volumes
        assert "net250" in {each["Name"] for each in daemon.request("GET", "/networks").json()}


def _each(keys: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    return ((key, value) for key in keys for value in VALUES)

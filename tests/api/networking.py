"""What the tests of containers' networks share: networks and containers of a few words, and a look at both."""

import contextlib
import json
import uuid
from collections.abc import Iterator
from urllib.parse import quote

from tests.harness.daemon import Daemon


def subnet(text: str) -> dict:
    """The part of a network's body that gives it this subnet."""
    return {"IPAM": {"Config": [{"Subnet": text}]}}


@contextlib.contextmanager
def networks(daemon: Daemon, **bodies: dict) -> Iterator[dict[str, str]]:
    """Networks for the length of a `with`: name → what create is told of it; gives name → id."""
    made: dict[str, str] = {}
    try:
        for name, body in bodies.items():
            answer = daemon.request("POST", "/networks/create", {"Name": name, **body})
            assert answer.status == 201, answer
            made[name] = answer.json()["Id"]
        yield made
    finally:
        for identifier in made.values():
            answer = daemon.request("DELETE", f"/networks/{identifier}")
            assert answer.status == 204, answer


@contextlib.contextmanager
def container(daemon: Daemon, *argv: str, begin: bool = True, name: str = "", **body: object) -> Iterator[str]:
    """A container for the length of a `with`, by its name; it sleeps unless told otherwise, on the default network."""
    name = name or f"net-{uuid.uuid4().hex[:8]}"
    whole = {"Image": "busybox", "Cmd": list(argv) or ["sleep", "600"], "HostConfig": {}, **body}
    answer = daemon.request("POST", f"/containers/create?name={name}", whole)
    assert answer.status == 201, answer
    try:
        if begin:
            daemon.begin(name)
        yield name
    finally:
        daemon.remove(name)


def on(mode: str, **host: object) -> dict:
    """The part of a body that puts a container into this network."""
    return {"HostConfig": {"NetworkMode": mode, **host}}


def endpoints(**settings: dict) -> dict:
    """The part of a body with several networks."""
    return {"NetworkingConfig": {"EndpointsConfig": settings}}


def connect(daemon: Daemon, network: str, container: str, **settings: object) -> tuple[int, str]:
    """What connecting is answered with: the status, and the text of a refusal."""
    body = {"Container": container, "EndpointConfig": settings or None}
    return outcome(daemon, f"/networks/{network}/connect", body)


def disconnect(daemon: Daemon, network: str, container: str, force: bool = False) -> tuple[int, str]:
    """The same of disconnecting."""
    return outcome(daemon, f"/networks/{network}/disconnect", {"Container": container, "Force": force})


def outcome(daemon: Daemon, path: str, body: dict | None = None) -> tuple[int, str]:
    """The status of a POST and the text of its refusal."""
    answer = daemon.request("POST", path, body)
    return answer.status, answer.message if answer.status >= 400 else ""


def shown(daemon: Daemon, container: str) -> dict[str, dict]:
    """The networks of a container."""
    return daemon.inspect(container)["NetworkSettings"]["Networks"]


def addresses(daemon: Daemon, container: str) -> dict[str, str]:
    """Network → address of a container."""
    return {name: endpoint["IPAddress"] for name, endpoint in shown(daemon, container).items()}


def members(daemon: Daemon, network: str) -> set[str]:
    """The names of those who are in a network."""
    return {each["Name"] for each in daemon.request("GET", f"/networks/{network}").json()["Containers"].values()}


def listed(daemon: Daemon, **filters: list[str]) -> list[dict]:
    """The containers that pass these filters."""
    answer = daemon.request("GET", f"/containers/json?all=1&filters={quote(json.dumps(filters))}")
    assert answer.status == 200, answer
    return answer.json()


def inside(daemon: Daemon, container: str, script: str) -> str:
    """What a script says that is run in a container."""
    made = daemon.request(
        "POST",
        f"/containers/{container}/exec",
        {"Cmd": ["sh", "-c", script], "AttachStdout": True, "AttachStderr": True, "Tty": True},
    ).json()["Id"]
    answer = daemon.request("POST", f"/exec/{made}/start", {"Tty": True})
    return answer.body.decode().replace("\r\n", "\n").strip()

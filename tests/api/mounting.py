"""What the tests of mounts share: a host directory, volumes, and the ways to ask."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon


@pytest.fixture
def source(world) -> Path:
    """A directory of the host with a file, a directory and a link that leads out of it."""
    path = world.directory()
    (path / "file").write_text("from the host\n")
    (path / "deeper").mkdir()
    (path / "deeper/other").write_text("deeper\n")
    (path / "out").symlink_to("/etc")
    return path


@pytest.fixture
def volume(daemon: Daemon) -> Iterator[Callable[..., str]]:
    """Make volumes that are gone after the test."""
    made: list[str] = []

    def create(**body: object) -> str:
        name = body.pop("Name", f"v-{uuid.uuid4().hex[:10]}")
        answer = daemon.request("POST", "/volumes/create", {"Name": name, **body})
        assert answer.status == 201, answer
        made.append(name)
        return name

    yield create
    for name in made:
        assert daemon.request("DELETE", f"/volumes/{name}?force=1").status in (204, 404)


def host(**values: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **values}


def bind(source: Path | str, target: str, **values: object) -> dict:
    """An entry of HostConfig.Mounts."""
    return {"Type": "bind", "Source": str(source), "Target": target, **values}


def refused(daemon: Daemon, host_config: dict, *argv: str, image: str = "busybox") -> tuple[int, str]:
    """Status and text of a create, or of a start, that is refused."""
    body = {"Image": image, "Cmd": list(argv) or ["true"], "HostConfig": host_config}
    answer = daemon.request("POST", "/containers/create", body)
    if answer.status != 201:
        return answer.status, answer.message
    identifier = answer.json()["Id"]
    try:
        answer = daemon.request("POST", f"/containers/{identifier}/start")
        assert answer.status != 204
        return answer.status, answer.message
    finally:
        daemon.remove(identifier)

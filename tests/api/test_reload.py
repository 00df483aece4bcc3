"""SIGHUP: a daemon looks at its configuration again while everything runs on."""

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon

OF_THE_DAEMON = quote('{"type":["daemon"]}')


def told(daemon: Daemon, count: int) -> list[dict]:
    """That many events of the daemon itself, from its start on."""
    lines: list[dict] = []
    with daemon.connection(timeout=30) as connection:
        connection.open_stream("GET", f"/events?since=1&filters={OF_THE_DAEMON}")
        for chunk in connection.chunks():
            lines += [json.loads(line) for line in chunk.splitlines()]
            if len(lines) >= count:
                break
    return lines


@pytest.fixture
def config(world) -> Path:
    """A configuration file that says nothing."""
    path = world.directory() / "daemon.json"
    path.write_text("{}")
    return path


@pytest.fixture
def reloaded(make_daemon: Callable[..., Daemon], config: Path) -> Daemon:
    """A daemon with that file."""
    return make_daemon("--config-file", str(config))


def test_what_may_change_changes_with_the_file_and_all_else_stays(reloaded: Daemon, config: Path) -> None:
    before = reloaded.request("GET", "/info").json()
    assert (before["Debug"], before["RegistryConfig"]["Mirrors"]) == (False, [])
    config.write_text('{"debug": true, "registry-mirrors": ["https://mirror.test"], "init-path": "/x"}')
    reloaded.process.send_signal(signal.SIGHUP)
    (event,) = told(reloaded, 1)
    assert (event["Action"], event["Actor"]["ID"]) == ("reload", before["ID"])
    told_of = {"debug": "true", "insecure-registries": "[]", "registry-mirrors": '["https://mirror.test/"]'}
    assert {"name": before["Name"], **told_of}.items() <= event["Actor"]["Attributes"].items()
    after = reloaded.request("GET", "/info").json()
    assert (after["Debug"], after["InitBinary"]) == (True, before["InitBinary"])
    registries = after["RegistryConfig"]
    assert registries["Mirrors"] == registries["IndexConfigs"]["docker.io"]["Mirrors"] == ["https://mirror.test/"]
    config.write_text('{"insecure-registries": ["r.test:5000"]}')
    reloaded.process.send_signal(signal.SIGHUP)
    told(reloaded, 2)
    indexes = reloaded.request("GET", "/info").json()["RegistryConfig"]["IndexConfigs"]
    assert not indexes["r.test:5000"]["Secure"] and not indexes["docker.io"]["Mirrors"]


def test_a_file_that_cannot_be_read_changes_nothing_and_the_daemon_runs_on(reloaded: Daemon, config: Path) -> None:
    config.write_text('{"debug": "perhaps"}')
    reloaded.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 30
    while (
        "the configuration could not be reloaded: unable to configure the Docker daemon with file" not in reloaded.log
    ):
        assert time.monotonic() < end
        time.sleep(0.01)  # a log file has no event for "a line more"
    assert reloaded.request("GET", "/info").json()["Debug"] is False

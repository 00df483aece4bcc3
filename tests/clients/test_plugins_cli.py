"""Plugins of docker's protocol as users of the real CLI meet them: volume drivers, log drivers and who authorizes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.cli import said
from tests.harness.daemon import Daemon
from tests.harness.plugin import Plugin, Volumes


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the daemon of these tests looks for plugins."""
    return tmp_path_factory.mktemp("c")


@pytest.fixture(scope="module")
def guard(directory: Path) -> Iterator[Plugin]:
    """An authorization plugin that forbids the removal of what is called `dear`."""
    with Plugin("authz").serving(directory / "guard.sock") as made:
        made.methods["AuthZPlugin.AuthZReq"] = lambda told: {
            "Allow": told["RequestMethod"] != "DELETE" or "dear" not in told["RequestUri"],
            "Msg": "it is dear",
        }
        made.methods["AuthZPlugin.AuthZRes"] = lambda _: {"Allow": True}
        yield made


@pytest.fixture(scope="module")
def plugged(world, directory: Path, guard: Plugin) -> Iterator[Daemon]:
    """A daemon with all of that."""
    made = world.daemon(["--plugin-dir", str(directory), "--authorization-plugin", "guard"]).start()
    made.import_busybox()
    yield made
    made.stop()


def test_a_volume_of_a_plugin_from_its_creation_to_its_removal(
    plugged: Daemon, directory: Path, tmp_path: Path
) -> None:
    """By the words of docker's manual."""

    def docker(*words: str) -> str:
        return said(plugged.command("docker", *words))

    with Volumes(tmp_path).serving(directory / "keeper.sock") as keeper:
        assert docker("volume", "create", "-d", "keeper", "-o", "a=b", "kept") == "kept\n"
        assert docker("volume", "ls", "--format", "{{.Driver}} {{.Name}} {{.Scope}}") == "keeper kept global\n"
        shown = docker("volume", "inspect", "-f", "{{.Mountpoint}} {{.Options}} {{.Status}}", "kept")
        assert shown == " map[a:b] map[options:map[a:b]]\n"
        run = ("run", "--rm", "--network", "none", "-v", "kept:/v", "busybox", "sh", "-c")
        assert docker(*run, "echo hello > /v/f; cat /v/f") == "hello\n"
        assert not keeper.mounted["kept"]
        mount = "type=volume,volume-driver=keeper,source=other,target=/v"
        docker("run", "--rm", "--network", "none", "--mount", mount, "busybox", "true")
        assert sorted(keeper.volumes) == ["kept", "other"]
        assert "keeper" in docker("info", "-f", "{{.Plugins.Volume}} {{.Plugins.Authorization}}")
        assert docker("volume", "rm", "kept", "other") == "kept\nother\n"
        assert keeper.volumes == {}


def test_what_a_plugin_forbids_is_told(plugged: Daemon) -> None:
    """With its own words, and the exit code of a refusal."""
    said(plugged.command("docker", "volume", "create", "dear"))
    refused = plugged.command("docker", "volume", "rm", "dear")
    assert refused.returncode == 1
    assert b"authorization denied by plugin guard: it is dear" in refused.stderr
    assert said(plugged.command("docker", "volume", "ls", "-q")) == "dear\n"


def test_a_run_with_a_log_plugin(plugged: Daemon, directory: Path) -> None:
    """The client sees the output, and `docker logs` has the copy."""
    opened: list[int] = []
    with Plugin("LogDriver").serving(directory / "logger.sock") as plugin:

        def start(asked: dict) -> dict:
            opened.append(os.open(asked["File"], os.O_RDONLY | os.O_NONBLOCK))
            return {}

        plugin.methods["LogDriver.StartLogging"] = start
        plugin.methods["LogDriver.StopLogging"] = lambda _: {}
        words = ("--network", "none", "--log-driver", "logger", "--log-opt", "x=y", "busybox", "echo", "hello")
        assert said(plugged.command("docker", "run", "--name", "logged", *words)) == "hello\n"
        assert said(plugged.command("docker", "logs", "logged")) == "hello\n"
        said(plugged.command("docker", "rm", "logged"))
        [asked] = plugin.asked("LogDriver.StartLogging")
        assert asked["Info"]["Config"] == {"x": "y"}
    for each in opened:
        os.close(each)

"""The units for systemd, and where they are written."""

import configparser
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.units import install
from tests.harness.daemon import PROJECT


def sections(text: str) -> dict[str, dict[str, str]]:
    """A unit's settings; none of these units has one twice."""
    parser = configparser.RawConfigParser(delimiters="=", comment_prefixes="#", strict=True)
    parser.optionxform = str
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def run(*arguments: str) -> subprocess.CompletedProcess:
    """`engine install-units`."""
    command = [sys.executable, "-m", "engine", "install-units", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True)


def test_a_clones_units_start_the_clone(tmp_path: Path) -> None:
    done = run("--directory", str(tmp_path), "-G", "docker")
    assert (done.returncode, done.stderr) == (0, "")
    assert "systemctl daemon-reload && systemctl enable --now engine.socket engine.service" in done.stdout
    service = sections((tmp_path / "engine.service").read_text())["Service"]
    assert service["WorkingDirectory"] == str(PROJECT)
    assert service["ExecStart"] == f"{sys.executable} -m engine daemon -H fd://"
    assert sections((tmp_path / "engine.socket").read_text())["Socket"]["SocketGroup"] == "docker"
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o644}


def test_containers_outlive_the_service() -> None:
    """What the engine's promise rests on under systemd, and what its tasks and descriptors need."""
    service = sections(install.unit("engine.service", "root", install.start()))["Service"]
    kept = {"Type": "notify", "KillMode": "process", "Delegate": "yes", "TasksMax": "infinity"}
    assert kept.items() <= service.items()
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_the_daemon_may_sleep_and_its_containers_are_stopped_at_a_power_off_all_the_same() -> None:
    """By a unit that the service asks for, and that is stopped after it."""
    for of_user in (False, True):
        units = {name: sections(install.unit(name, "root", install.start(), of_user)) for name in install.UNITS}
        assert units["engine.service"]["Service"]["Environment"] == "ENGINE_IDLE_EXIT=60"
        assert "engine-poweroff.service" in units["engine.service"]["Unit"]["Wants"].split()
        stops = units["engine-poweroff.service"]
        assert stops["Unit"]["Before"] == "engine.service"
        assert stops["Service"]["ExecStop"] == f"{sys.executable} -m engine power-off"
        assert stops["Service"]["WorkingDirectory"] == str(PROJECT)
        assert (stops["Service"]["Type"], stops["Service"]["RemainAfterExit"]) == ("oneshot", "yes")


def test_a_users_units_go_to_the_users_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "engine", "install-units", "--user"]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "systemctl --user daemon-reload && systemctl --user enable --now engine.socket engine.service" in done.stdout
    assert "loginctl enable-linger" in done.stdout
    written = {path.name: sections(path.read_text()) for path in (tmp_path / "systemd" / "user").iterdir()}
    assert written["engine.socket"]["Socket"] == {"ListenStream": "%t/engine.sock", "SocketMode": "0600"}
    service = written["engine.service"]
    kept = {"Type": "notify", "KillMode": "process", "Delegate": "yes", "WorkingDirectory": str(PROJECT)}
    assert kept.items() <= service["Service"].items()
    assert service["Install"]["WantedBy"] == "default.target"


def test_a_users_socket_has_no_group() -> None:
    done = run("--user", "--group", "docker", "--show")
    assert done.returncode == 1 and "for that user alone" in done.stderr


def test_they_are_shown_and_not_written(tmp_path: Path) -> None:
    done = run("--show", "--directory", str(tmp_path))
    assert done.returncode == 0
    assert "# engine.socket" in done.stdout
    assert "ListenStream=/run/engine.sock" in done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--directory", "/no/such"], "cannot be written"), (["more"], "wrong number"), (["--no"], "unknown flag")],
)
def test_what_cannot_be_done_is_said(arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("path", "quoted"),
    [("/usr/bin/engined", "/usr/bin/engined"), ("/a b/x", '"/a b/x"'), ("/a%b", "/a%%b"), ("/a$b", "/a$$b")],
)
def test_paths_are_what_systemd_reads(path: str, quoted: str) -> None:
    assert install._quoted(path) == quoted

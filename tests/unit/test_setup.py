"""What the tests' own set-up and the benchmarks may write, and what of the host's programs they may take."""

import os
from pathlib import Path

import pytest

from bench import __main__ as benchmarks
from tests import __main__ as setup
from tests.harness import ambient


def test_a_run_of_the_benchmarks_writes_only_what_git_ignores() -> None:
    """The floors compare the papers with the results that are kept."""
    ignored = (setup.PROJECT / ".gitignore").read_text().splitlines()
    output = benchmarks.parser().parse_args([]).output
    assert f"{output.relative_to(setup.PROJECT).parts[0]}/" in ignored


def test_debians_client_is_unpacked_where_the_host_has_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tests of old clients take that one; of the other programs the host's will do."""
    chosen: list[str] = []
    monkeypatch.setattr(setup, "PROGRAMS", (tmp_path,))
    monkeypatch.setattr(setup, "program", lambda name: lambda: name != "zsh")
    for name, value in {
        "NEEDS": (),
        "is_debian": lambda: True,
        "candidate": lambda package: True,
        "apt": lambda *words: None,
        "unpack": chosen.extend,
    }.items():
        monkeypatch.setattr(setup, name, value)
    monkeypatch.setattr(setup.os, "geteuid", lambda: 0)
    monkeypatch.setattr(setup.redis, "complete", lambda cache: True)
    setup.install_packages()
    assert chosen == ["docker-cli", "zsh", "zsh-common"]
    (tmp_path / "docker").touch()
    chosen.clear()
    setup.install_packages()
    assert chosen == ["zsh", "zsh-common"]


def test_what_a_shell_tells_other_programs_is_forgotten() -> None:
    told = ("DOCKER_HOST", "http_proxy", "HTTPS_PROXY", "LC_ALL", "TZ", "LISTEN_FDS", "XDG_RUNTIME_DIR", "COMPOSE_FILE")
    kept = {
        "PATH": "/bin",
        "HOME": "/root",
        "XDG_CACHE_HOME": "/c",
        "ENGINE_TEST_MUXER": "c",
        "CI": "1",
        "TERM": "dumb",
    }
    environment = {**dict.fromkeys(told, "x"), **kept}
    ambient.forget(environment)
    assert environment == kept
    assert not [name for name in os.environ if ambient.FOREIGN.fullmatch(name)]
    assert os.umask(ambient.UMASK) == ambient.UMASK

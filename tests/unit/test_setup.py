"""What the tests' own set-up and the benchmarks may write, and what of the host's programs they may take."""

from pathlib import Path

import pytest

from bench import __main__ as benchmarks
from tests import __main__ as setup


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

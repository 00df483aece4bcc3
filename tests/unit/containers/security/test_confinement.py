"""The AppArmor profile of containers, on made-up hosts with AppArmor, with and without its parser."""

import os
from pathlib import Path

import pytest

from engine.daemon.containers.security import confinement
from engine.errors import SystemFailure


class Made:
    """A host whose kernel has AppArmor; its parser writes what it gets into `text` and loads the profile."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        for name, value in (("_ENABLED", "enabled"), ("_LOADED", "profiles"), ("_OWN", "current"), ("_SETTINGS", "d")):
            monkeypatch.setattr(confinement, name, str(root / value))
        monkeypatch.setattr(confinement, "_PLACES", (str(root / "bin"),))
        monkeypatch.setattr(confinement, "_ours", type(confinement._ours)())
        confinement.parser.cache_clear()
        (root / "bin").mkdir()
        (root / "enabled").write_text("Y\n")
        (root / "current").write_text("unconfined\n")
        self.load("man_groff (enforce)")

    def load(self, *lines: str) -> None:
        """What the kernel has."""
        (self.root / "profiles").write_text("".join(f"{line}\n" for line in lines))

    def parser(self, script: str) -> None:
        """A parser that does this."""
        path = self.root / "bin" / "apparmor_parser"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        confinement.parser.cache_clear()

    def working(self) -> None:
        """A parser that loads the profile; how often it ran is the number of lines in `runs`."""
        loads = f"echo 'engine-default (enforce)' >> {self.root}/profiles"
        self.parser(f"echo $* >> {self.root}/runs; cat > {self.root}/text; {loads}")

    def runs(self) -> list[str]:
        """The arguments of each run of the parser."""
        path = self.root / "runs"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A host with AppArmor and no parser."""
    return Made(tmp_path, monkeypatch)


def test_the_profile_is_loaded_once(made: Made) -> None:
    made.working()
    assert confinement.chosen("", False) == "engine-default"
    for _ in range(3):
        assert confinement.ready("engine-default") == "engine-default"
    assert made.runs() == ["-Kr"]
    assert (made.root / "text").read_text() == confinement.text()


def test_a_profile_of_an_earlier_daemon_is_replaced(made: Made) -> None:
    made.working()
    made.load("engine-default (enforce)")
    confinement.ready("engine-default")
    assert made.runs() == ["-Kr"]


def test_a_profile_that_somebody_removed_is_loaded_again(made: Made) -> None:
    made.working()
    confinement.ready("engine-default")
    made.load()
    confinement.ready("engine-default")
    assert len(made.runs()) == 2


def test_without_a_parser_containers_run_unconfined(made: Made) -> None:
    assert confinement.kernel_has()
    assert not confinement.confines()
    assert confinement.chosen("", False) == ""


def test_without_a_parser_a_profile_that_is_loaded_serves(made: Made) -> None:
    made.load("engine-default (enforce)")
    assert confinement.chosen("", False) == "engine-default"
    assert confinement.ready("engine-default") == "engine-default"


@pytest.mark.parametrize("state", ["N\n", None])
def test_a_host_without_apparmor_hears_nothing(made: Made, state: str | None) -> None:
    made.working()
    os.unlink(made.root / "enabled")
    if state:
        (made.root / "enabled").write_text(state)
    assert [confinement.chosen(asked, False) for asked in ("", "unconfined", "mine")] == ["", "", ""]
    assert not made.runs()


@pytest.mark.parametrize(
    ("asked", "privileged", "profile"),
    [
        ("", True, ""),
        ("mine", False, "mine"),
        ("mine", True, "mine"),
        ("unconfined", False, "unconfined"),
        ("docker-default", False, "engine-default"),
    ],
)
def test_what_a_client_asks_for(made: Made, asked: str, privileged: bool, profile: str) -> None:
    made.working()
    assert confinement.chosen(asked, privileged) == profile


def test_dockers_own_profile_is_used_where_it_is_loaded(made: Made) -> None:
    made.working()
    made.load("docker-default (enforce)")
    assert confinement.chosen("docker-default", False) == "docker-default"


def test_a_parser_that_fails_is_told_in_its_words(made: Made) -> None:
    made.parser("echo syntax error in line 3 >&2; exit 1")
    with pytest.raises(SystemFailure, match="engine-default could not be loaded: syntax error in line 3"):
        confinement.ready("engine-default")


def test_the_hosts_abstractions_are_included_where_they_are(made: Made) -> None:
    assert "#include" not in confinement.text()
    (made.root / "d" / "tunables").mkdir(parents=True)
    (made.root / "d" / "tunables" / "global").touch()
    assert confinement.text().startswith("#include <tunables/global>")


@pytest.mark.parametrize(
    ("own", "there"), [("unconfined", False), ("", False), ("lxc (enforce)", True), ('a"b (enforce)', False)]
)
def test_a_confined_daemon_may_signal_its_containers(made: Made, own: str, there: bool) -> None:
    (made.root / "current").write_text(own)
    assert (f'peer="{own.partition(" (")[0]}"' in confinement.text()) is there

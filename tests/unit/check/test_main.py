"""The rows of `engine check`, its text, its JSON and its exit status, without a look at this host."""

import json
from pathlib import Path

import pytest

from engine.check import main
from engine.check.row import MISSING, OK, UNKNOWN, UNUSED, Check, Found

WANTED = Check("a thing", lambda _: Found(OK, "there"), "The daemon refuses to start.", "make thing", essential=True)
EXTRA = Check("an extra", lambda _: Found(MISSING, "not there\x1b[31m"), "It is slower.", "make extra")
NEEDLESS = Check("another", lambda _: Found(UNUSED, "nobody needs it"), "", "")


def without(check: Check, state: str = MISSING) -> Check:
    """The row on a host that lacks it."""
    return Check(check.name, lambda _: Found(state, "gone"), check.without, check.mend, check.essential)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch):
    """Set the rows."""
    return lambda *checks: monkeypatch.setattr(main, "CHECKS", checks)


def test_every_row_has_a_name_of_its_own_and_says_what_to_do() -> None:
    assert len({check.name for check in main.CHECKS}) == len(main.CHECKS)
    for check in main.CHECKS:
        assert not check.without or check.without.endswith("."), check.name
        assert bool(check.without and check.mend) or not check.essential, check.name
    assert sum(check.essential for check in main.CHECKS) > 8


def test_a_host_with_all_that_is_essential_is_ready(rows, capsys) -> None:
    rows(WANTED, EXTRA, NEEDLESS)
    assert main.main(["--config-file", "/dev/null"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok       configuration  readable",
        "ok       a thing        there",
        "MISSING  an extra       not there [31m",
        "         Without it: It is slower.",
        "         To mend it: make extra",
        "-        another        nobody needs it",
        "",
        "Containers can run as usual.",
    ]


@pytest.mark.parametrize("state", [MISSING, UNKNOWN])
def test_a_host_that_lacks_something_essential_is_not(rows, capsys, state: str) -> None:
    rows(without(WANTED, state), EXTRA)
    assert main.main(["--config-file", "/dev/null"]) == 1
    assert capsys.readouterr().out.endswith("Containers cannot run as usual: a thing.\n")


def test_the_json_has_every_row_in_one_shape(rows, capsys) -> None:
    rows(WANTED, EXTRA)
    assert main.main(["--json", "--config-file", "/dev/null"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ready"] is True and told["version"]
    assert [each["name"] for each in told["checks"]] == ["configuration", "a thing", "an extra"]
    assert told["checks"][1] == {
        "name": "a thing",
        "state": "ok",
        "essential": True,
        "found": "there",
        "without": "The daemon refuses to start.",
        "mend": "make thing",
    }


def test_a_broken_configuration_is_a_row_and_the_others_follow(rows, capsys, tmp_path: Path) -> None:
    rows(WANTED)
    (tmp_path / "daemon.json").write_text('{"no-such-key": 1}')
    assert main.main(["--json", "--config-file", str(tmp_path / "daemon.json")]) == 1
    first, second = json.loads(capsys.readouterr().out)["checks"]
    assert (first["name"], first["state"]) == ("configuration", "missing") and "no-such-key" in first["found"]
    assert second["state"] == "ok"


def test_the_probes_get_the_options_of_the_daemon(rows, capsys) -> None:
    rows(Check("where", lambda settings: Found(OK, settings.data_root), "", ""))
    assert main.main(["--data-root", "/some/where", "--config-file", "/dev/null"]) == 0
    assert "where          /some/where" in capsys.readouterr().out


def test_the_help_names_what_it_takes(capsys) -> None:
    assert main.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: engine check [--json] [OPTIONS OF THE DAEMON]\n")

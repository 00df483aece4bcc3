"""A probe in a child of its own: whatever it does, it becomes a row in words."""

import os
import signal
import time

import pytest

from engine.check import trial
from engine.check.row import MISSING, OK, UNKNOWN, Found
from engine.errors import SystemFailure


def refused() -> Found:
    raise PermissionError(1, "Operation not permitted", "/x")


def failed() -> Found:
    raise SystemFailure("the words of the engine")


def broken() -> Found:
    raise ZeroDivisionError("of the probe's own")


def killed() -> Found:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def ended() -> Found:
    os._exit(3)


@pytest.mark.parametrize(
    ("probe", "state", "text"),
    [
        (lambda: Found(OK, "there"), OK, "there"),
        (refused, MISSING, "[Errno 1] Operation not permitted: '/x'"),
        (failed, MISSING, "the words of the engine"),
        (broken, UNKNOWN, "the probe failed: ZeroDivisionError: of the probe's own"),
        (killed, UNKNOWN, "the probe ended without an answer"),
        (ended, UNKNOWN, "the probe ended without an answer"),
        (lambda: Found(OK, "x" * 100_000), OK, "x" * 1000),
    ],
)
def test_whatever_a_probe_does_is_told_in_words(probe, state: str, text: str, capfd) -> None:
    assert trial.run(probe) == Found(state, text)
    assert capfd.readouterr() == ("", "")


def test_a_probe_that_never_answers_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.05)
    read, write = os.pipe()
    found = trial.run(lambda: time.sleep(3600))
    assert found.state == UNKNOWN and "no answer" in found.text
    os.close(write)
    assert os.read(read, 1) == b"", "the child has its end of the pipe no more"
    os.close(read)


def test_what_a_probe_changes_ends_with_it() -> None:
    here = os.getcwd()
    assert trial.run(lambda: Found(OK, str(os.chdir("/")))) == Found(OK, "None")
    assert os.getcwd() == here

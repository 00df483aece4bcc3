"""Health checks as pure rules: what is run, when, and what a result means."""

import pytest

from engine.daemon.clock import SECOND
from engine.daemon.containers import config as configs
from engine.daemon.containers.health.verdicts import (
    CUT_SHORT,
    MOST_OUTPUT,
    Check,
    begun,
    check_of,
    go_duration,
    halted,
    judged,
    next_in_ns,
    overdue,
    shown_output,
)
from engine.daemon.containers.record import Health, Probe

STARTED = 1_000 * SECOND


def check(asked, shell=None):
    """The check of a Config with this Healthcheck."""
    return check_of({"Healthcheck": asked, "Shell": shell})


@pytest.mark.parametrize(
    ("test", "shell", "command"),
    [
        (["CMD", "true"], None, ("true",)),
        (["CMD", "a", "b c"], ["/bin/bash", "-c"], ("a", "b c")),
        (["CMD-SHELL", "exit 1"], None, ("/bin/sh", "-c", "exit 1")),
        (["CMD-SHELL", "exit 1"], ["/bin/bash", "-ec"], ("/bin/bash", "-ec", "exit 1")),
        (["CMD-SHELL"], None, ("/bin/sh", "-c")),
    ],
)
def test_what_is_run(test, shell, command):
    """The words, or the shell of the image with the text."""
    assert check({"Test": test}, shell).command == command


@pytest.mark.parametrize(
    "asked",
    [None, {}, {"Test": []}, {"Test": ["NONE"]}, {"Test": ["WHAT", "true"]}, {"Test": ["CMD"]}, {"Interval": 5}],
)
def test_what_is_no_check(asked):
    """Nothing asked, NONE, and a word that dockerd takes and does nothing with (transcript 82)."""
    assert check(asked) is None


def test_the_defaults_are_docker_s():
    """30 s, 30 s, no start period, 5 s, 3."""
    assert check({"Test": ["CMD", "x"]}) == Check(("x",), 30 * SECOND, 30 * SECOND, 0, 5 * SECOND, 3)
    given = {"Interval": SECOND, "Timeout": 2 * SECOND, "StartPeriod": 3, "StartInterval": 4 * SECOND, "Retries": 5}
    assert check({"Test": ["CMD", "x"], **given}) == Check(("x",), SECOND, 2 * SECOND, 1_000_000, 4 * SECOND, 5)


def test_an_image_cannot_ask_for_impossible_times():
    """Its config was written by a stranger: not shorter than a millisecond, nor longer than a number holds."""
    wild = check({"Test": ["CMD", "x"], "Interval": -5, "Timeout": 1, "StartPeriod": 10**400, "Retries": -3})
    assert (wild.interval_ns, wild.timeout_ns, wild.start_period_ns, wild.retries) == (10**6, 10**6, (1 << 63) - 1, 3)


@pytest.mark.parametrize(
    ("client", "image", "merged"),
    [
        (None, {"Test": ["CMD", "i"], "Interval": 9}, {"Test": ["CMD", "i"], "Interval": 9}),
        ({"Test": ["NONE"]}, {"Test": ["CMD", "i"], "Retries": 2}, {"Test": ["NONE"], "Retries": 2}),
        ({"Timeout": 7, "Test": []}, {"Test": ["CMD", "i"], "Timeout": 8}, {"Test": ["CMD", "i"], "Timeout": 7}),
        (
            {"Interval": 0, "Test": ["CMD", "c"]},
            {"Test": ["CMD", "i"], "Interval": 4},
            {"Test": ["CMD", "c"], "Interval": 4},
        ),
        (
            {"Retries": 3, "Interval": 2, "Test": ["CMD", "c"]},
            None,
            {"Test": ["CMD", "c"], "Interval": 2, "Retries": 3},
        ),
        (None, None, None),
    ],
)
def test_a_client_s_check_is_merged_with_the_image_s(client, image, merged):
    """Field by field, where the client said nothing; shown in dockerd's order."""
    config = configs.container_config({"Healthcheck": client, "Cmd": ["x"]})
    configs.merge_image(config, {"Healthcheck": image} if image else {})
    configs.normalise(config)
    assert config["Healthcheck"] == merged
    assert list(config["Healthcheck"] or ()) == list(merged or ())


def probe(exit_code, at=60):
    """A probe that was begun so many seconds after the start."""
    return Probe(STARTED + at * SECOND, STARTED + (at + 1) * SECOND, exit_code, "")


PLAIN = Check(("x",), retries=3)
PATIENT = Check(("x",), start_period_ns=100 * SECOND, retries=2)


@pytest.mark.parametrize(
    ("rules", "before", "exit_code", "at", "after"),
    [
        (PLAIN, ("starting", 0), 0, 60, ("healthy", 0)),
        (PLAIN, ("starting", 0), 1, 60, ("starting", 1)),
        (PLAIN, ("starting", 1), 1, 60, ("starting", 2)),
        (PLAIN, ("starting", 2), 1, 60, ("unhealthy", 3)),
        (PLAIN, ("starting", 2), 0, 60, ("healthy", 0)),
        (PLAIN, ("healthy", 0), 1, 60, ("healthy", 1)),
        (PLAIN, ("healthy", 2), CUT_SHORT, 60, ("unhealthy", 3)),
        (PLAIN, ("healthy", 2), 137, 60, ("unhealthy", 3)),
        (PLAIN, ("unhealthy", 3), 1, 60, ("unhealthy", 4)),
        (PLAIN, ("unhealthy", 9), 0, 60, ("healthy", 0)),
        # Within the start period a failure does not count, and a success ends it.
        (PATIENT, ("starting", 0), 1, 99, ("starting", 0)),
        (PATIENT, ("starting", 0), 1, 100, ("starting", 1)),
        (PATIENT, ("starting", 1), 1, 101, ("unhealthy", 2)),
        (PATIENT, ("starting", 0), 0, 1, ("healthy", 0)),
        (PATIENT, ("healthy", 0), 1, 5, ("healthy", 1)),
        (PATIENT, ("healthy", 1), 1, 6, ("unhealthy", 2)),
    ],
)
def test_what_a_probe_means(rules, before, exit_code, at, after):
    """From a state and a result to a state."""
    found = judged(Health(*before), rules, probe(exit_code, at), STARTED)
    assert (found.status, found.failing_streak) == after
    assert found.log == (probe(exit_code, at),)


def test_the_log_holds_the_last_five():
    """Oldest first."""
    health = begun(None)
    for at in range(7):
        health = judged(health, PLAIN, probe(0, at), STARTED)
    assert health.log == tuple(probe(0, at) for at in range(2, 7))


def test_a_new_run_begins_anew_and_keeps_the_log():
    """dockerd shows this after a restart (transcript 200)."""
    before = Health("unhealthy", 4, (probe(1),))
    assert begun(before) == Health("starting", 0, (probe(1),))
    assert begun(None) == Health("starting", 0, ())


def test_nobody_vouches_for_what_is_not_probed():
    """A paused and an ended container are shown as unhealthy, their streak as it was (transcript 174 and 203)."""
    assert halted(Health("healthy", 0, (probe(0),))) == Health("unhealthy", 0, (probe(0),))


@pytest.mark.parametrize(
    ("rules", "status", "since_start", "wait"),
    [
        (PLAIN, "starting", 0, 30),
        (PLAIN, "healthy", 1000, 30),
        (PATIENT, "starting", 0, 5),
        (PATIENT, "starting", 99, 5),
        (PATIENT, "starting", 100, 30),
        (PATIENT, "healthy", 10, 30),
        (PATIENT, "unhealthy", 10, 30),
    ],
)
def test_when_the_next_probe_is_due(rules, status, since_start, wait):
    """At the start interval only within the start period, and only until the first success."""
    assert next_in_ns(Health(status), rules, since_start * SECOND) == wait * SECOND


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        (b"", ""),
        (b"hi\n", "hi\n"),
        (b"\xffa", "\ufffda"),
        (b"x" * MOST_OUTPUT, "x" * MOST_OUTPUT),
        (b"x" * (MOST_OUTPUT + 1), "x" * MOST_OUTPUT + "..."),
    ],
)
def test_the_first_of_the_output_is_shown(output, shown):
    """4096 bytes, and three dots for more."""
    assert shown_output(output) == shown


def test_a_probe_that_took_too_long_says_so():
    """In docker's words, with what it had said until then."""
    slow = Check(("x",), timeout_ns=1_500_000_000)
    assert overdue(slow, b"") == "Health check exceeded timeout (1.5s)"
    assert overdue(slow, b"so far") == "Health check exceeded timeout (1.5s): so far"


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (150_000_000, "150ms"),
        (1_000_000_000, "1s"),
        (3_300_000_000, "3.3s"),
        (30 * SECOND, "30s"),
        (60 * SECOND, "1m0s"),
        (245 * SECOND, "4m5s"),
        (245_001_000_000, "4m5.001s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (480_000_000_001, "8m0.000000001s"),
        ((1 << 63) - 1, "2562047h47m16.854775807s"),
    ],
)
def test_durations_are_printed_as_go_prints_them(nanoseconds, text):
    """The examples of Go's own time.Duration.String."""
    assert go_duration(nanoseconds) == text

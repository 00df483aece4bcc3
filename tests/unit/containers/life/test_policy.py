"""Restart policies as a table: what ended how, and whether it is to run again and when."""

import pytest

from engine.daemon.containers.life import policy


def named(name, most=0):
    return {"Name": name, "MaximumRetryCount": most}


@pytest.mark.parametrize(
    ("given", "exit_code", "by_hand", "count", "again"),
    [
        (named("no"), 0, False, 0, False),
        (named("no"), 1, False, 0, False),
        (named("always"), 0, False, 0, True),
        (named("always"), 1, False, 1000, True),
        (named("always"), 137, True, 0, True),  # at a daemon's start: what is stopped now is held by its verb
        (named("unless-stopped"), 0, False, 0, True),
        (named("unless-stopped"), 1, False, 7, True),
        (named("unless-stopped"), 0, True, 0, False),
        (named("unless-stopped"), 137, True, 0, False),
        (named("on-failure"), 0, False, 0, False),
        (named("on-failure"), 1, False, 0, True),
        (named("on-failure"), 1, False, 1000, True),
        (named("on-failure"), 255, False, 0, True),
        (named("on-failure"), 137, True, 0, True),  # as in dockerd
        (named("on-failure", 3), 1, False, 2, True),
        (named("on-failure", 3), 1, False, 3, False),
        (named("on-failure", 3), 0, False, 0, False),
        (named("on-failure", 1), 9, False, 0, True),
        (named("on-failure", 1), 9, False, 1, False),
    ],
)
def test_a_policy_decides(given, exit_code, by_hand, count, again):
    assert policy.runs_again(given, exit_code, by_hand=by_hand, count=count) is again


@pytest.mark.parametrize(
    ("before", "ran", "after"),
    [
        (0, 0, 0.1),
        (0, 100, 0.1),
        (0.1, 0, 0.2),
        (0.1, 9.99, 0.2),
        (0.1, 10, 0.1),
        (25.6, 1, 51.2),
        (51.2, 1, 60),
        (60, 1, 60),
        (60, 10, 0.1),
    ],
)
def test_the_wait_doubles_up_to_a_minute_and_begins_anew_after_a_good_run(before, ran, after):
    assert policy.delay(before, ran) == pytest.approx(after)


def test_ten_failures_in_a_row_take_102_seconds_of_waiting():
    waited, total = 0.0, 0.0
    for _ in range(10):
        waited = policy.delay(waited, 0)
        total += waited
    assert total == pytest.approx(102.3, abs=10) and waited == pytest.approx(51.2)

"""Moments in filters: ages, dates and seconds."""

from datetime import datetime

import pytest

from engine.daemon import moments
from engine.errors import Invalid

SECOND = 10**9
NOW = 1_795_153_093 * SECOND


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("1h30m", 5400), ("1.5h", 5400), ("90s", 90), ("100ms", 0.1), ("-1h", -3600), ("+2s", 2)],
)
def test_an_age_is_counted_back(text, seconds):
    assert moments.parse(text, NOW) == NOW - int(seconds * SECOND)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("0", 0),
        ("1795153093", NOW),
        ("1795153093.5", NOW + SECOND // 2),
        ("1795153093.000000001", NOW + 1),
        ("1795153093.0000000019", NOW + 1),
        ("2026-11-20T05:38:13Z", NOW),
        ("2026-11-20T05:38:13.25Z", NOW + SECOND // 4),
        ("2026-11-20T06:38:13+01:00", NOW),
        ("2026-11-19T23:08:13-06:30", NOW),
        ("2026-11-20T05:38Z", NOW - 13 * SECOND),
        ("2026-11-20T05Z", NOW - (38 * 60 + 13) * SECOND),
        ("2026-11-20Z", NOW - (5 * 3600 + 38 * 60 + 13) * SECOND),
        ("1969-12-31T23:59:59.5Z", -SECOND // 2),
    ],
)
def test_a_date_or_a_number_of_seconds_is_that_moment(text, moment):
    assert moments.parse(text, NOW) == moment


@pytest.mark.parametrize("text", ["2026-11-20", "2026-11-20T05:38:13", "2026-11-20T05:38"])
def test_without_a_zone_it_is_the_hosts(text):
    assert moments.parse(text, NOW) == int(datetime.fromisoformat(text).timestamp()) * SECOND


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "failed to parse value as time or duration: value is empty"),
        ("x", 'failed to parse value as time or duration: invalid seconds "x": invalid syntax'),
        ("5y: z", 'failed to parse value as time or duration: invalid seconds "5y: z": invalid syntax'),
        ("10", None),
        ("10d", "failed to parse"),
        ("1h x", "failed to parse"),
        ("2026-13-01", "parsing time .*: month out of range"),
        ("2026-02-30T00:00:00Z", "parsing time .*: day out of range"),
        ("2026-02-20T25:00:00Z", "parsing time .*: hour out of range"),
        ("0000-01-01", "parsing time"),
        ("9" * 40, "failed to parse"),
    ],
)
def test_anything_else_is_refused_in_words(text, said):
    if said is None:
        assert moments.parse(text, NOW) == int(text) * SECOND
        return
    with pytest.raises(Invalid, match=said):
        moments.parse(text, NOW)

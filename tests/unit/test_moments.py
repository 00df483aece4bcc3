"""Moments in filters: ages, dates and seconds."""

from datetime import datetime

import pytest

from engine.daemon import moments
from engine.errors import Invalid

SECOND = 10**9
NOW = 1_795_153_093 * SECOND
FAILED = "failed to parse value as time or duration"


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
        ("10", 10 * SECOND),
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
        ("2026-11-20T5:38:13,25Z", NOW + SECOND // 4),
        ("2026-11-20T05:38:13.0000000019999999999999999Z", NOW + 1),
        ("0000-02-29T00:00:00Z", -62_162_121_600 * SECOND),
        ("9999-12-31T23:59:59-24:00", 253_402_387_199 * SECOND),
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
        ("", f"{FAILED}: value is empty"),
        (" ", f"{FAILED}: value is empty"),
        ("x", f'{FAILED}: invalid seconds "x": invalid syntax'),
        ("5y: z", f'{FAILED}: invalid seconds "5y: z": invalid syntax'),
        ("10d", f'{FAILED}: invalid seconds "10d": invalid syntax'),
        ("1h x", f'{FAILED}: invalid seconds "1h x": invalid syntax'),
        ("9" * 40, f'{FAILED}: invalid seconds "{"9" * 40}": value out of range'),
        ("1.x5", f"{FAILED}: invalid nanoseconds: invalid character 'x' at position 0"),
        ("1.2é", f"{FAILED}: invalid nanoseconds: invalid character 'Ã' at position 1"),
        ("1." + "0" * 21, f"{FAILED}: invalid nanoseconds: length 21 exceeds maximum 20"),
        ("-1", 'parsing time "-1" as "2006-01-02": cannot parse "-1" as "2006"'),
        ("-1.5", 'parsing time "-1.5" as "2006-01-02T15:04:05.999999999": cannot parse "-1.5" as "2006"'),
        ("2026-1-02", 'parsing time "2026-1-02" as "2006-01-02": cannot parse "1-02" as "01"'),
        ("2026/01-02", 'parsing time "2026/01-02" as "2006-01-02": cannot parse "/01-02" as "-"'),
        ("2026-01-02T3:4", 'parsing time "2026-01-02T3:4" as "2006-01-02T15:04": cannot parse "4" as "04"'),
        ("2026-01-02T03:04:05.", 'parsing time "2026-01-02T03:04:05.": extra text: "."'),
        ("2026-01-02z", 'parsing time "2026-01-02z" as "2006-01-02Z07:00": cannot parse "z" as "Z07:00"'),
        ("2026-01-02-01:00x", 'parsing time "2026-01-02-01:00x": extra text: "x"'),
        ("é-", r'parsing time "\xc3\xa9-" as "2006-01-02": cannot parse "\xc3\xa9-" as "2006"'),
        ("1.\\", rf"{FAILED}: invalid nanoseconds: invalid character '\\' at position 0"),
        ("2026-13-01", 'parsing time "2026-13-01": month out of range'),
        ("2026-00-01", 'parsing time "2026-00-01": month out of range'),
        ("2026-02-30T00:00:00Z", 'parsing time "2026-02-30T00:00:00Z": day out of range'),
        ("2026-02-00", 'parsing time "2026-02-00": day out of range'),
        ("2026-02-20T25:00:00Z", 'parsing time "2026-02-20T25:00:00Z": hour out of range'),
        ("2026-02-20T23:60", 'parsing time "2026-02-20T23:60": minute out of range'),
        ("2026-02-20T23:59:60Z", 'parsing time "2026-02-20T23:59:60Z": second out of range'),
        ("2026-02-20T23+01:61", 'parsing time "2026-02-20T23+01:61": time zone offset minute out of range'),
        ("2026-02-20T23:59:59+25:00", 'parsing time "2026-02-20T23:59:59+25:00": time zone offset hour out of range'),
    ],
)
def test_anything_else_is_refused_in_the_words_of_go(text, said):
    with pytest.raises(Invalid) as refused:
        moments.parse(text, NOW)
    assert str(refused.value) == said

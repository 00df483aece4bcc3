"""Sizes, ages, times and columns, as docker shows and takes them."""

import pytest

from engine.client import display
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("12", 12), ("1b", 1), ("64m", 64 << 20), ("64MB", 64 << 20), ("64MiB", 64 << 20), ("1.5g", 3 << 29)],
)
def test_a_size_is_read(text, count):
    assert display.parse_size(text) == count


@pytest.mark.parametrize("text", ["", "m", "-1", "1x", "1 2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(Invalid):
        display.parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", "5"),
        ("5.25", "5.25"),
        ("10m", "400.000000000"),
        ("1m30s", "910.000000000"),
        ("500ms", "999.500000000"),
        ("1970-01-01T00:00:07Z", "7.000000000"),
        ("1970-01-01T01:00:07+01:00", "7.000000000"),
        ("2013-01-02T13:23:37.123456789Z", "1357133017.123456789"),
        ("2013-01-02T14:23:37.5+01:00", "1357133017.500000000"),
    ],
)
def test_a_time_is_read(text, seconds):
    assert display.parse_time(text, 1000) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10m!", "-5"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Invalid):
        display.parse_time(text, 1000)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0B"), (999, "999B"), (1000, "1kB"), (4272000, "4.27MB"), (999_600, "1MB"), (93_400_000_000, "93.4GB")],
)
def test_a_size_is_shown_in_three_digits(count, text):
    assert display.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "Less than a second"),
        (0.5, "Less than a second"),
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "About a minute"),
        (125, "2 minutes"),
        (3599, "59 minutes"),
        (3600, "About an hour"),
        (5400, "2 hours"),
        (47 * 3600, "47 hours"),
        (3 * 86400, "3 days"),
        (20 * 86400, "2 weeks"),
        (90 * 86400, "3 months"),
        (800 * 86400, "2 years"),
    ],
)
def test_an_age_is_shown_in_words(seconds, text):
    assert display.age(seconds) == text


def test_columns_line_up_and_lines_have_no_blanks_at_their_end():
    rows = [("xyz", "1"), ("", "")]
    assert display.columns(("A", "LONG"), rows) == "A         LONG\nxyz       1\n"
    assert display.columns(("A", "B"), [("a long cell", "1")]) == "A             B\na long cell   1"


def test_long_texts_and_ids_are_cut():
    assert display.shortened("abcdef", 4) == "abc…"
    assert display.shortened("abcd", 4) == "abcd"
    assert display.short_id("sha256:" + "ab" * 32) == "abababababab"

"""Patterns of COPY and ADD, as Go's filepath.Match has them."""

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.builder.copying.wildcards import Pattern, is_pattern

MATCHES = [
    ("abc", "abc"),
    ("*", "abc"),
    ("*c", "abc"),
    ("a*/b", "abc/b"),
    ("a*b*c", "axbbc"),
    ("a?c", "abc"),
    ("[a-c]x", "bx"),
    ("[^a-c]x", "dx"),
    ("[\\]a]", "]"),
    ("a\\*", "a*"),
    ("[x\\-]", "-"),
    ("", ""),
]
REFUSED = [
    ("*", "a/b"),
    ("a?b", "a/b"),
    ("[^a]x", "ax"),
    ("a", "ab"),
    ("a*b", "abc"),
    ("[", "["),
    ("[]a]", "]"),
    ("[-a]", "-"),
    ("x[a", "xa"),
    ("a\\", "a\\"),
    ("[b-a]", "a"),
    ("**", "a/b"),
    ("a\\*", "ab"),
]
DEEP = [("**/c", "a/b/c"), ("**/c", "c"), ("a/**", "a/b/c"), ("a/**/c", "a/c"), ("**/b/c", "a/b/c"), ("**", "a/b")]


@pytest.mark.parametrize(("pattern", "path"), MATCHES)
def test_what_matches(pattern: str, path: str) -> None:
    assert Pattern(pattern).matches(path)


@pytest.mark.parametrize(("pattern", "path"), REFUSED)
def test_what_does_not(pattern: str, path: str) -> None:
    assert not Pattern(pattern).matches(path)


@pytest.mark.parametrize(("pattern", "path"), DEEP)
def test_two_stars_stand_for_any_number_of_directories(pattern: str, path: str) -> None:
    assert Pattern(pattern, deep=True).matches(path)


def test_a_backslash_takes_a_wildcard_away() -> None:
    assert [is_pattern(text) for text in ("a*", "a?", "[a", "a\\*", "a", "\\\\*")] == [
        True,
        True,
        True,
        False,
        False,
        True,
    ]


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_stars_and_question_marks_mean_what_they_mean_elsewhere(pattern: str, name: str) -> None:
    assert Pattern(pattern).matches(name) == fnmatch.fnmatchcase(name, pattern)


@given(st.text("ab*?[]\\^-/", max_size=16), st.text("ab/]", max_size=16))
def test_any_pattern_is_taken(pattern: str, name: str) -> None:
    assert Pattern(pattern, deep=True).matches(name) in (True, False)


def test_a_hostile_pattern_costs_no_time() -> None:
    begun = time.process_time()
    assert not Pattern("*a" * 40 + "b").matches("a" * 4000)
    assert not Pattern("**/a/" * 40 + "b", deep=True).matches("a/" * 400)
    assert time.process_time() - begun < 1


def test_a_pattern_of_megabytes_matches_nothing_and_costs_nothing() -> None:
    begun = time.process_time()
    assert not Pattern("*a" * 1_000_000).matches("a" * 10)
    assert time.process_time() - begun < 1


def test_many_double_stars_in_a_row_are_one():
    pattern = Pattern("a/" + "**/" * 2000 + "x", deep=True)
    assert len(pattern.step(pattern.start, "a")) == 2
    assert pattern.matches("a/x") and pattern.matches("a/" + "b/" * 300 + "x") and not pattern.matches("b/x")
    assert Pattern("a/**/**", deep=True).matches("a/b/c")

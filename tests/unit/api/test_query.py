"""engine.daemon.api.query: the query of a request as docker reads it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.api.query import Query
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("raw", "flag"),
    [("a", False), ("a=", False), ("a=0", False), ("a=no", False), ("a=False", False), ("a=none", False)]
    + [("a=1", True), ("a=true", True), ("a=yes", True), ("a=anything", True), ("a=+1", True)],
)
def test_a_flag_is_set_by_all_but_a_few_words(raw, flag):
    assert Query(raw).flag("a") is flag
    assert Query(raw).flag("a", default=not flag) is flag


def test_a_flag_that_is_not_given_has_its_default():
    assert Query("").flag("a") is False
    assert Query("b=1").flag("a", default=True) is True


def test_a_text_is_decoded_and_the_first_value_counts():
    query = Query("name=a%20b+c%C3%A9&name=second&empty&%6eone=")
    assert query.text("name") == "a b cé"
    assert query.every("name") == ["a b cé", "second"]
    assert query.text("empty", "default") == ""
    assert query.text("missing", "default") == "default"
    assert "none" in query
    assert "missing" not in query


@pytest.mark.parametrize("raw", ["a=%", "a=%4", "a=%zz", "a=b;c=d"])
def test_a_malformed_query_is_invalid_when_it_is_looked_at(raw):
    query = Query(raw)
    with pytest.raises(Invalid, match=r"invalid (URL escape|semicolon)"):
        query.text("b")


def test_a_number_is_decimal():
    query = Query("a=12&b=-3&c=&d=x&e=99999999999999999999&f=9223372036854775808")
    assert (query.number("a"), query.number("b")) == (12, -3)
    assert query.number("c", 7) == 7
    assert query.number("missing") is None
    for name, text in (("d", 'strconv.Atoi: parsing "x": invalid syntax'), ("f", "value out of range")):
        with pytest.raises(Invalid, match=text):
            query.number(name)
    with pytest.raises(Invalid):
        query.number("e")


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1", 10**9),
        ("0", 0),
        ("1795153093.5", 1795153093_500000000),
        ("1.000000001", 10**9 + 1),
        ("1.0000000019", 10**9 + 1),
    ],
)
def test_a_moment_is_seconds_with_a_fraction(text, nanoseconds):
    assert Query(f"since={text}").timestamp("since") == nanoseconds


def test_a_bad_moment_is_told_as_docker_tells_it():
    """Transcript 144."""
    with pytest.raises(Invalid) as caught:
        Query("since=bogus").timestamp("since")
    text = 'invalid value for "since": invalid timestamp "bogus": invalid seconds "bogus": invalid syntax'
    assert str(caught.value) == text
    assert Query("").timestamp("since") is None


@pytest.mark.parametrize(
    "filters", ['{"status":["created","dead"]}', '{"status":{"created":true,"dead":true,"paused":false}}']
)
def test_filters_come_as_lists_or_as_maps(filters):
    assert Query(f"filters={filters}").filters({"status"}) == {"status": ("created", "dead")}
    assert Query("").filters({"status"}) == {}


def test_a_value_that_is_there_twice_counts_once():
    assert Query('filters={"until":["1h","1h","2h"]}').filters() == {"until": ("1h", "2h")}


@pytest.mark.parametrize(
    "filters", ["%7Bbad", "[]", "1", '{"a":"b"}', '{"a":[1]}', '{"a":{"b":1}}', "{}{}", "[" * 5000]
)
def test_what_is_no_filter_is_invalid(filters):
    """Transcript 118."""
    with pytest.raises(Invalid) as caught:
        Query(f"filters={filters}").filters()
    assert str(caught.value) == "invalid filter"


def test_a_filter_of_an_unknown_name_is_invalid():
    """Transcript 119."""
    with pytest.raises(Invalid) as caught:
        Query('filters={"nope":["x"]}').filters({"status"})
    assert str(caught.value) == "invalid filter 'nope'"


@given(st.text(st.characters(max_codepoint=255), max_size=30))
def test_any_query_is_read_or_invalid(raw):
    query = Query(raw)
    for look in (query.text, query.flag, query.number, query.timestamp):
        with contextlib.suppress(Invalid):
            look("a")
    with contextlib.suppress(Invalid):
        Query(f"filters={raw}").filters()

"""Rows as tables, as JSON and by templates; colours on a terminal alone."""

import io
import json

import pytest

from engine.client.showing import colours
from engine.client.showing.listings import Listing, labelled, lines, shown
from engine.errors import Invalid

LISTING = Listing({"ID": "THING ID", "Name": "NAME", "Labels": "LABELS"}, ("ID", "Name"))
ROWS = [
    {"ID": "1", "Name": "one", **labelled({"b": "2", "a": "1"})},
    {"ID": "2", "Name": "two", **labelled(None)},
]


@pytest.mark.parametrize("form", ["", "table"])
def test_a_table_has_the_usual_columns(form):
    assert list(lines(LISTING, ROWS, form)) == ["THING ID   NAME\n1          one\n2          two"]


def test_a_table_may_have_other_columns():
    assert next(iter(lines(LISTING, ROWS, "", ("Name", "Labels")))).splitlines()[1] == "one       a=1,b=2"
    text = "\n".join(lines(LISTING, ROWS, r'table {{.Name}}\t{{.Label "a"}}\t{{.ID}}'))
    assert text.splitlines() == ["NAME      a         THING ID", "one       1         1", "two                 2"]


def test_json_is_a_line_for_each_row_without_functions():
    found = [json.loads(line) for line in lines(LISTING, ROWS, "json")]
    assert found[0] == {"ID": "1", "Name": "one", "Labels": "a=1,b=2"}
    assert list(found[0]) == sorted(found[0])
    assert list(lines(LISTING, ROWS, "{{json .}}")) == list(lines(LISTING, ROWS, "json"))


def test_of_a_row_json_has_escapes_and_maps_and_a_field_has_none():
    """As docker's rows, and not its documents."""
    rows = [{"ID": "<none>", "Platform": {"os": "linux"}, "Label": lambda name: name}]
    assert list(lines(LISTING, rows, "{{json .}}")) == [r'{"ID":"\u003cnone\u003e","Platform":{"os":"linux"}}']
    assert list(lines(LISTING, rows, "{{json .ID}} {{.Platform.os}}")) == ['"<none>" linux']


def test_a_template_is_a_line_for_each_row():
    assert list(lines(LISTING, ROWS, r"{{.ID}}\t{{json .Name}}")) == ['1\t"one"', '2\t"two"']
    with pytest.raises(Invalid, match="no entry"):
        list(lines(LISTING, ROWS, "{{.Nope}}"))


def test_an_empty_table_has_its_heads():
    assert list(lines(LISTING, [], "")) == ["THING ID   NAME"]
    assert list(lines(LISTING, [], "json")) == []


def test_a_document_is_shown_as_asked():
    assert shown({"a": [1]}, "json") == '{"a":[1]}'
    assert shown({"a": [1]}, "{{len .a}}") == "1"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("out", "environ", "wanted"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(out, environ, wanted):
    assert colours.wanted(out, environ) is wanted


def test_a_text_is_painted_where_colours_are_on():
    assert colours.painted("x", "red", True) == "\x1b[31mx\x1b[0m"
    assert colours.painted("x", "red", False) == "x"
    assert colours.painted("", "red", True) == ""

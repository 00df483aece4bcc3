"""Templates as Go fills them in, and what of Go's is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.showing.gotemplate import Template
from engine.errors import Invalid, NotBuilt

DATA = {
    "A": {"b": 1, "c": [{"P": "80"}, {"P": "443"}], "none": None, "empty": [], "f": 1.5},
    "Networks": {"x": {"IP": "1.2"}, "y": {"IP": "3"}},
    "Name": "two words",
    "Yes": True,
    "Label": lambda name: f"<{name}>",
}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("{{.A.b}}", "1"),
        ("{{ .Yes }}{{.A.none}}{{.A.f}}", "true<nil>1.5"),
        ("{{json .A.c}}", '[{"P":"80"},{"P":"443"}]'),
        ("{{.Name | upper | json}}", '"TWO WORDS"'),
        ("{{.A}}", "map[b:1 c:[map[P:80] map[P:443]] empty:[] f:1.5 none:<nil>]"),
        ("{{range .Networks}}{{.IP}};{{end}}", "1.2;3;"),
        ("{{range $k, $v := .Networks}}{{$k}}={{$v.IP}} {{end}}", "x=1.2 y=3 "),
        ("{{range $i, $v := .A.c}}{{$i}}{{$v.P}},{{end}}", "080,1443,"),
        ("{{range .A.empty}}x{{else}}none{{end}}", "none"),
        ("{{range .A.none}}x{{end}}", ""),
        ("{{range .A.c}}{{$.Name}}.{{end}}", "two words.two words."),
        ("{{(index .A.c 1).P}}", "443"),
        ('{{index .Networks "x" "IP"}}{{index .Networks "nope"}}', "1.2"),
        ("{{if .Yes}}a{{else}}b{{end}}", "a"),
        ("{{if .A.none}}a{{else if .A.empty}}b{{else}}c{{end}}", "c"),
        ("{{if and .Yes (eq .A.b 2 1)}}a{{end}}", "a"),
        ("{{if not .Yes}}a{{end}}", ""),
        ("{{with .A}}{{.b}}{{end}}{{with .A.none}}x{{else}}{{.Name}}{{end}}", "1two words"),
        ("{{$x := .Name}}{{len $x}}{{$x = 3}}{{$x}}", "93"),
        ('{{join (split .Name " ") "-"}} {{title .Name}} {{lower "X"}}', "two-words Two Words x"),
        ('{{.Label "a"}}', "<a>"),
        ("a {{- .A.b -}} b", "a1b"),
        ("a{{/* nothing */}}b", "ab"),
        ('{{println "a" 1}}{{print 1 2 "x" 3}}', "a 1\n1 2x3"),
        (r'{{"a\tb"}}{{`c\d`}}', "a\tbc\\d"),
        ('{{pad .Name 1 2}}{{truncate .Name 3}}{{pad "" 1 1}}', " two words  two"),
        ("{{gt 2 1}}{{le 2 1}}{{ne 1 1}}{{or 0 5}}", "truefalsefalse5"),
        (
            '{{printf "%s-%d|%5s|%-5s|%05d|%.2f|%q|%v|%x|%%" .Name .A.b "a" "b" 7 1.5 "q" .Yes 255}}',
            'two words-1|    a|b    |00007|1.50|"q"|true|ff|%',
        ),
        ('{{printf "%d %s" "x"}}{{printf "a" 1}}', "%!d(string=x) %!s(MISSING)a%!(EXTRA int=1)"),
        ('{{.Name | printf "<%s>"}}', "<two words>"),
        ("{{slice .Name 1 3}}{{slice .Name 4}}{{len (slice .A.c 1)}}", "wowords1"),
        ('{{html "a<b>&" 1}}', "a&lt;b&gt;&amp;1"),
    ],
)
def test_a_template_is_filled_in(text, filled):
    assert Template(text).filled(DATA) == filled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{{.Nope}}", 'map has no entry for key "Nope"'),
        ("{{.A.b.c}}", "can't evaluate field c in type int"),
        ("{{.A.none.x}}", "nil data"),
        ("{{", "unclosed action"),
        ("{{.A", "unclosed action"),
        ("{{if .A}}", "unexpected EOF"),
        ("{{end}}", "unexpected {{end}}"),
        ("{{else}}", "unexpected {{else}}"),
        ("{{nope .A}}", 'function "nope" not defined'),
        ("{{(.A}}", "unclosed left paren"),
        ("{{.A)}}", "unexpected ')'"),
        ("{{}}", "missing value for command"),
        ("{{.A |}}", "missing value for command"),
        ("{{$x}}", 'undefined variable "$x"'),
        ("{{json}}", "wrong number of args for json: want 1 got 0"),
        ("{{upper .A}}", "error calling upper"),
        ("{{index .A.c 7}}", "index out of range: 7"),
        ("{{range .Name}}{{end}}", "range can't iterate over two words"),
        ("{{.A 1}}", "can't give argument to non-function"),
        ("{{range $a, $b, $c := .A}}{{end}}", "too many declarations"),
        ("{{#}}", "in an action"),
        ("{{if 1}}" * 101, "too many blocks"),
        ("{{" + "(" * 101 + "1" + ")" * 101 + "}}", "too many parentheses"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(Invalid) as caught:
        Template(text).filled(DATA)
    assert "template parsing error: " in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ['{{define "x"}}', '{{template "x"}}', "{{js .Name}}"])
def test_what_is_not_built_is_refused_by_name(text):
    with pytest.raises(NotBuilt, match="that this client does not have"):
        Template(text)


def test_of_gos_printf_a_width_that_is_a_value_is_refused():
    with pytest.raises(NotBuilt, match="that this client does not have"):
        Template('{{printf "%*d" 1 2}}').filled({})
    with pytest.raises(Invalid, match="a width of more than"):
        Template('{{printf "%999999999d" 1}}').filled({})


@given(st.text(alphabet='{}.|()$:=-/* "`\\aAb1\n\tifrangeend', max_size=60))
def test_no_text_does_anything_else_than_be_filled_in_or_refused(text):
    try:
        Template(text).filled(DATA)
    except (Invalid, NotBuilt):
        return


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_json_gives_back_what_was_there(value):
    assert json.loads(Template("{{json .}}").filled(value)) == value

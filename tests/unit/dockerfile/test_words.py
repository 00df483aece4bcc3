"""Variables and quotes in words, against what docker's own lexer answered for the same."""

import threading

import pytest

from engine.daemon.dockerfile import words
from engine.errors import Invalid

VARIABLES = {"a": "x", "b": "hello world", "c": "", "d": "a/b.c/d.c", "e": "aXbXc", "f": "  p q "}

EXPANDED = [
    ("$a", "x"),
    ("${a}", "x"),
    ("$un", ""),
    ("$ab", ""),
    ("${a}b", "xb"),
    ("$a$b", "xhello world"),
    ("\\$a", "$a"),
    ("\\\\$a", "\\x"),
    ("'$a'", "$a"),
    ('"$a"', "x"),
    ("\"'$a'\"", "'x'"),
    ("'\"$a\"'", '"$a"'),
    ('"\\$a"', "$a"),
    ('"\\n\\"\\\\"', '\\n"\\'),
    ("'a'\"b\"c", "abc"),
    ("a\\ b", "a b"),
    ("a\\", "a"),
    ("$", "$"),
    ("$ a", "$ a"),
    ("$1$12$0", ""),
    ("$$a", "a"),
    ("$@", ""),
    ("a<b<<c", "a<b<<c"),
    ("${a:-y}", "x"),
    ("${un:-y}", "y"),
    ("${c:-y}", "y"),
    ("${c-y}", ""),
    ("${un-y}", "y"),
    ("${a:+y}", "y"),
    ("${c:+y}", ""),
    ("${c+y}", "y"),
    ("${un+y}", ""),
    ("${a:?m}", "x"),
    ("${c?m}", ""),
    ("${un:-$a}", "x"),
    ("${un:-${un2:-${a}}}", "x"),
    ("${un:-'$a'}", "$a"),
    ('${un:-"a}b"}', "a}b"),
    ("${un:-a\\}b}", "a}b"),
    ("${d#*/}", "b.c/d.c"),
    ("${d##*/}", "d.c"),
    ("${d%/*}", "a/b.c"),
    ("${d%%/*}", "a"),
    ("${d%.c}", "a/b.c/d"),
    ("${d#?}", "/b.c/d.c"),
    ("${d#nope}", "a/b.c/d.c"),
    ("${un#x}", ""),
    ("${e/X/-}", "a-bXc"),
    ("${e//X/-}", "a-b-c"),
    ("${e//X/}", "abc"),
    ("${e/X*/!}", "a!"),
    ("${d//\\//:}", "a:b.c:d.c"),
    ("${e//${un:-X}/${a}}", "axbxc"),
    ("${e//?/.}", "....."),
]

REFUSED = [
    ("${", "syntax error: missing '}'"),
    ("${}", "syntax error: bad substitution"),
    ("${:x}", "syntax error: bad substitution"),
    ("${{a}}", "syntax error: bad substitution"),
    ("${a:}", "syntax error: missing '}'"),
    ("${a:x}", "unsupported modifier (:x) in substitution"),
    ("${a^}", "unsupported modifier (^) in substitution"),
    ("${a:#x}", "unsupported modifier (:#) in substitution"),
    ("${a:-b", "syntax error: missing '}'"),
    ("${a/b}", "syntax error: missing '/' in ${}"),
    ("${a/b/c", "syntax error: missing '}'"),
    ("${un:?why}", "un: why"),
    ("${un?}", "un: is not allowed to be unset"),
    ("${c:?}", "c: is not allowed to be empty"),
    ("'a", "unexpected end of statement while looking for matching single-quote"),
    ('"a', "unexpected end of statement while looking for matching double-quote"),
    ("${a#\\x}", "invalid pattern (\\x) in substitution: invalid escape '\\x'"),
]

DIVIDED = [
    ("a b  c", ["a", "b", "c"]),
    ("$b", ["hello", "world"]),
    ('"$b"', ["hello world"]),
    ("x$b", ["xhello", "world"]),
    ("$f", ["p", "q"]),
    ("a' 'b\\ c", ["a b c"]),
    ("'' \"\" $un", []),
    ("${un:-80 81}", ["80", "81"]),
    ("a\t\n b", ["a", "b"]),
]


@pytest.mark.parametrize(("text", "expected"), EXPANDED)
def test_variables_are_put_in_and_quotes_taken_away(text, expected):
    assert words.expand(text, VARIABLES) == expected


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_cannot_be_read_is_refused_in_docker_s_words(text, message):
    with pytest.raises(Invalid) as refused:
        words.expand(text, VARIABLES)
    assert str(refused.value).endswith(": " + message)
    assert str(refused.value).startswith("failed to process ")


@pytest.mark.parametrize(("text", "expected"), DIVIDED)
def test_words_are_divided_after_the_variables_are_put_in(text, expected):
    assert words.expand_list(text, VARIABLES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("'$a' \"$a\"", "'x' \"x\""), ("\\$a '\\'", "$a ''"), ("it's", "it's"), ("${un:-'x'}", "'x'")],
)
def test_the_quotes_of_a_heredoc_stay(text, expected):
    assert words.expand_raw(text, VARIABLES) == expected


def test_another_escape_makes_the_backslash_plain():
    assert words.expand("C:\\$a`$a", VARIABLES, "`") == "C:\\x$a"
    assert words.expand('"\\"', VARIABLES, "`") == "\\"


def test_a_result_is_bounded():
    big = {"x": "y" * 100_000}
    for text in ("$x" * 1000, "${x//y/" + "z" * 1000 + "}", "${x/a*/$x}" * 1000):
        with pytest.raises(Invalid, match="the result is too long"):
            words.expand(text, big)


def test_substitutions_nest_as_deep_as_a_thread_of_the_daemon_can_bear():
    outcome = []

    def nest(depth: int) -> None:
        try:
            outcome.append(words.expand('"${u:-' * depth + "x" + '}"' * depth, {}))
        except Invalid as error:
            outcome.append(str(error))

    before = threading.stack_size(256 * 1024)
    try:
        for depth in (words.DEEPEST, words.DEEPEST + 1, 20000):
            thread = threading.Thread(target=nest, args=(depth,))
            thread.start()
            thread.join()
    finally:
        threading.stack_size(before)
    assert outcome[0] == "x"
    assert all("nested too deeply" in text for text in outcome[1:])
    assert len(outcome) == 3

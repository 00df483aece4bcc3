"""What a .dockerignore leaves out; the answers are those of docker's own matcher to the same questions."""

import pytest

from engine.daemon.dockerfile.ignore import MOST_PATTERNS, Ignore
from engine.errors import Invalid

LEFT_OUT = [
    ("a", ["a", "a/b", "a/b/c"], ["b", "b/a", "aa"]),
    ("a/", ["a", "a/b"], ["b/a"]),
    ("/a", ["a", "a/b"], ["b/a"]),
    ("./a/../b", ["b"], ["a"]),
    ("a/b", ["a/b", "a/b/c"], ["a", "b", "x/a/b"]),
    ("*", ["a", "a/b", ".git"], []),
    ("*.go", ["a.go", ".go", "a.go/b"], ["a/b.go", "a.g"]),
    ("*/b", ["a/b", "a/b/c"], ["b", "a/a/b"]),
    ("a?c", ["abc", "a.c"], ["ac", "a/c", "abbc"]),
    ("a*b*c", ["abc", "axxbxxc", "abcbc"], ["abx", "a/b/c"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "-x"]),
    ("[^a]x", ["bx"], ["ax", "/x", "x"]),
    ("\\*", ["*"], ["a"]),
    ("a\\?b", ["a?b"], ["axb"]),
    ("**", ["a", "a/b"], []),
    ("**/b", ["b", "a/b", "a/c/b", "b/x"], ["ab", "a/bb"]),
    ("**b", ["b", "ab", "a/b", "a/xb"], ["bx"]),
    ("a/**", ["a/b", "a/b/c"], ["a", "ab"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/c"], ["ab", "a/xb", "b"]),
    ("**/a/**/b*", ["a/b", "x/a/y/bz", "a/a/bc"], ["a", "b", "a/cb"]),
    ("a**b", ["ab", "ax/b", "a/x/b"], ["axb", "a/xb"]),
    ("*a**b", ["xaab", "a/b", "xa/y/b"], ["axb"]),
    ("**/*.o", ["a.o", "x/a.o", "x/y/.o"], ["a.oo"]),
    ("*\n!a", ["b", "c/a"], ["a", "a/b"]),
    ("*\n!a\na/b", ["b", "a/b", "a/b/c"], ["a", "a/c"]),
    ("a\n!a/b\n", ["a", "a/c"], ["a/b", "a/b/c"]),
    ("!a\n*", ["a", "b"], []),
    ("*.md\n!README*.md\nREADME-x.md", ["a.md", "README-x.md"], ["README.md", "README-y.md"]),
    ("# a\n\n  b  \n", ["b"], ["a", "# a"]),
    ("\ufeff# a\nb\r\nc\r\n", ["b", "c"], ["a"]),
    ("! a\n * \n! b", ["a"], ["b"]),
    ("a.b(c)|d$", ["a.b(c)|d$"], ["axb(c)|d$"]),
    (".", [], ["a", ".a"]),
    ("", [], ["a"]),
    ("é*", ["é", "éa/b"], ["e"]),
]


@pytest.mark.parametrize(("text", "out", "kept"), LEFT_OUT)
def test_the_last_pattern_that_matches_a_path_or_its_parents_decides(text, out, kept):
    ignore = Ignore(text)
    assert [path for path in out if not ignore.matches(path)] == []
    assert [path for path in kept if ignore.matches(path)] == []


@pytest.mark.parametrize(("text", "out", "kept"), LEFT_OUT)
def test_a_directory_is_judged_as_a_file_is(text, out, kept):
    ignore = Ignore(text)
    assert all(ignore.matches(path, True) for path in out)
    assert not any(ignore.matches(path, True) for path in kept)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!", 'illegal exclusion pattern: "!"'),
        ("[", "syntax error in pattern"),
        ("[]", "syntax error in pattern"),
        ("[]a]", "syntax error in pattern"),
        ("[a-", "syntax error in pattern"),
        ("[-a]", "syntax error in pattern"),
        ("a\\", "syntax error in pattern"),
        ("x" * 5000, "too long"),
        ("x" * 2**21, "too large"),
        ("a\n" * (MOST_PATTERNS + 1), "more than 2000 patterns"),
    ],
)
def test_what_is_no_pattern_is_refused(text, message):
    with pytest.raises(Invalid) as refused:
        Ignore(text)
    assert message in str(refused.value)


def test_it_says_whether_anything_is_taken_back():
    assert Ignore("*\n!a").takes_back
    assert not Ignore("*\n#!a").takes_back


def test_a_path_deeper_than_any_stack_is_judged():
    path = "/".join(["d"] * 5000)
    assert Ignore("**/x\nd/d/d").matches(path)
    assert not Ignore("**/x").matches(path)

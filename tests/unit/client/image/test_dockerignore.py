"""Which paths a .dockerignore leaves out; no pattern holds up the client."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.client.image.dockerignore import Ignored, cleaned, matcher
from engine.daemon.dockerfile.ignore import Ignore
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("text", "out", "kept"),
    [
        ("", [], ["a", ".dockerignore"]),
        ("# comment\n\n", [], ["# comment"]),
        ("node_modules", ["node_modules", "node_modules/x/y"], ["a/node_modules"]),
        ("*.log", ["x.log", ".log"], ["a/x.log", "log"]),
        ("**/*.log", ["x.log", "a/b/x.log"], ["a/b/x"]),
        ("a/**", ["a/b", "a/b/c"], ["b"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["z", "az"]),
        ("/a/", ["a", "a/b"], ["b/a"]),
        ("./a/../b", ["b"], ["a"]),
        ("a?c", ["abc"], ["ac", "a/c", "abbc"]),
        ("[a-c]x", ["ax", "cx"], ["dx", "/x"]),
        ("[^a]x", ["bx"], ["ax"]),
        (r"\*x", ["*x"], ["ax"]),
        ("*\n!keep", ["a", "b/c"], ["keep", "keep/x"]),
        ("a\n!a/b\na/b/c", ["a/x", "a/b/c"], ["a/b", "a/b/d"]),
        ("a**b", ["ab", "ax/b"], ["axb", "b"]),
        ("*\n!**/*.md", ["x", "a/x"], ["x.md", "a/b/x.md"]),
    ],
)
def test_paths_are_left_out(text, out, kept):
    ignored = Ignored(text)
    assert [path for path in out if not ignored.left_out(path)] == []
    assert [path for path in kept if ignored.left_out(path)] == []


def test_what_the_daemon_needs_is_never_left_out():
    ignored = Ignored("*", ("sub/Dockerfile", ".dockerignore"))
    assert ignored.choice("sub", True) == (False, True)
    assert ignored.choice("sub/Dockerfile", False) == (True, False)
    assert ignored.choice("other", True) == (False, False)


def test_a_walk_enters_what_may_hold_something():
    ignored = Ignored("a\n!a/b/c\nz")
    assert ignored.choice("a", True) == (False, True)
    assert ignored.choice("a/b", True) == (False, True)
    assert ignored.choice("a/b/c", True) == (True, True)
    assert ignored.choice("a/x", True) == (False, False)
    assert ignored.choice("z", True) == (False, False)
    assert Ignored("a\n!**/x").choice("a", True) == (False, True)


@pytest.mark.parametrize("text", ["!", "[", "[]", "a[", "a\\", "[z-a]", "x" * 2000, "a**b**c**d", "a\n" * 3000])
def test_a_malformed_pattern_is_refused(text):
    with pytest.raises(Invalid):
        Ignored(text)


@pytest.mark.parametrize(
    "pattern", ["*a" * 30 + "b", "**/a/" * 30 + "b", "?*" * 30 + "b", "**/*a*a*a*a*a*a/**/*b*b*b*b", "a**b**c"]
)
def test_no_pattern_takes_long(pattern):
    matches = matcher(cleaned(pattern))
    began = time.process_time()
    for path in ("a" * 255, "a/" * 500 + "a", "/".join(["a" * 50] * 20)):
        matches(path)
    assert time.process_time() - began < 1


NAME = st.text(alphabet="ab.x", min_size=1, max_size=3).filter(lambda name: name not in (".", ".."))
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
PART = st.text(alphabet="ab.*?x", min_size=1, max_size=4).filter(lambda part: "**" not in part)
PATTERN = st.lists(PART | st.just("**"), min_size=1, max_size=4).map("/".join)


@given(st.lists(st.tuples(st.sampled_from(["", "!"]), PATTERN), max_size=4), PATH)
def test_client_and_daemon_agree(patterns, path):
    text = "\n".join(mark + pattern for mark, pattern in patterns)
    assert Ignored(text).left_out(path) == Ignore(text).matches(path)

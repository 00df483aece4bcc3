"""Regular expressions that are made up, and what Go's own package says to them: found or not, and why one is none."""

import itertools
import json
import random
import subprocess
import time
import unicodedata
from collections.abc import Sequence

import pytest

from engine import origin
from engine.errors import Invalid, NotBuilt
from engine.re2.automaton import Automaton
from engine.re2.replacing import Replacing
from tests.__main__ import CACHE
from tests.setup.goregexp import PROGRAMS

pytestmark = pytest.mark.skipif(not PROGRAMS.complete(CACHE), reason=f"needs Go's regexp: {PROGRAMS.unable()}")

PATTERNS = 5000
TEXTS = 6
# Letters with several cases, among them those that have more than two, and those that have none in spite of it.
CHARS = "abkKsS019_-/. \néÉßẞ\u017f\u212a\u03c3ςΣİ\u0131Дд日"
_ESCAPES = (
    r"\d \D \s \S \w \W \b \B \A \z \pL \PL \p{Lu} \P{^Ll} \p{Nd} \p{letter} \p{Any} \PN \p{Greek} \P{latin} "
    r"\p{^Cyrillic} \p{H-AN} \x41 \x{e9} \012 \1 \08 \. \/ \- \n \t \_ \Qa.b\E \Q*"
)
ESCAPES = _ESCAPES.split()
_WRONG = "\\p{Gree\u212a} " + r"\p{Foo} \p{Old_Italic} \x4 \x{ \q \C \Z \p \p{ \x{110000}"
WRONG = _WRONG.split()
CLASSES = ("[:alpha:]", "[:^digit:]", "[:word:]", "[:space:]")
REPEATS = ("*", "+", "?", "{2}", "{0,3}", "{1,}", "*?", "??", "{1,2}?", "{0}", "{,3}", "{2,", "{", "{02}")
WRONG_REPEATS = ("{3,2}", "{1001}", "**", "+*", "{2}{3}", "{100000000000}", "{50}){50}")
GROUPS = ("(", "(", "(?:", "(?i:", "(?s)(", "(?m:", "(?U:", "(?i-s:", "(?P<x>", "(?<y>", "(?im)(")
WRONG_GROUPS = ("(?", "(?P<", "(?P=x)", "(?i", "(?-)", "(?z:", "(?--:", "(?<a b>", "(?=")


class Made:
    """Makes up patterns and texts. A fault is rare, as one is enough for all of a pattern."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, usual: Sequence[str], wrong: Sequence[str] = ()) -> str:
        """One of these."""
        return self.random.choice(wrong if wrong and self.random.random() < 0.03 else usual)

    def pattern(self) -> str:
        """A pattern, with all that can be in one."""
        made = self.one(("", "", "(?i)", "(?s)", "(?m)")) + self.alternatives(3)
        if self.random.random() < 0.03:
            at = self.random.randrange(len(made) + 1)
            made = made[:at] + self.one("()[]{}*+?|\\^$.-") + made[at:]
        return made

    def alternatives(self, depth: int) -> str:
        """What is in a pair of parentheses."""
        ways = self.random.choice((1, 1, 2, 3))
        return "|".join("".join(self.repeated(depth) for _ in range(self.random.randint(0, 4))) for _ in range(ways))

    def repeated(self, depth: int) -> str:
        """One thing, which may be repeated."""
        kind = self.random.random()
        if kind < 0.45 or depth == 0:
            made = self.one(CHARS)
        elif kind < 0.62:
            made = self.one("..^$")
        elif kind < 0.72:
            made = self.one(ESCAPES, WRONG)
        elif kind < 0.82:
            made = self.char_set()
        else:
            made = self.one(GROUPS, WRONG_GROUPS) + self.alternatives(depth - 1) + self.one((")",), ("",))
        return made + (self.one(REPEATS, WRONG_REPEATS) if self.random.random() < 0.3 else "")

    def char_set(self) -> str:
        """A set in brackets."""
        made = "[" + self.one(("", "^", "")) + self.one(("", "]", "-", ""))
        for _ in range(self.random.randint(1, 4)):
            span = self.one("a0A") + "-" + self.one("z9Zb")
            made += self.one((*CHARS, span, self.one(ESCAPES[:-2], WRONG), *CLASSES, "-"), ("[:foo:]", "[", "z-a"))
        return made + self.one(("]",), ("",))

    def text(self) -> str:
        """A text of the same characters."""
        return "".join(self.one(CHARS) for _ in range(self.random.choice((0, 1, 2, 4, 8, 30))))


def asked_of_go(cases: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[bool]]]:
    """What Go says to patterns and texts: an error's words, or for each text whether the pattern is found."""
    answers = answers_of_go([(pattern, "", texts) for pattern, texts in cases])
    return [(answer["Error"], answer["Found"]) for answer in answers]


def answers_of_go(cases: Sequence[tuple[str, str, Sequence[str]]]) -> list[dict]:
    """All that Go says to patterns, templates and texts."""
    asked = [{"Pattern": pattern, "Template": template, "Texts": texts} for pattern, template, texts in cases]
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    program = PROGRAMS.place(CACHE, "regexps")
    said = subprocess.run([program], input=lines.encode(), capture_output=True, check=True).stdout
    answers = [json.loads(line) for line in said.splitlines()]
    assert len(answers) == len(cases)
    return answers


def asked_here(pattern: str, texts: Sequence[str]) -> tuple[str, list[bool]]:
    """The same of the engine."""
    try:
        automaton = Automaton([pattern])
    except Invalid as error:
        return str(error), []
    return "", [automaton.found_in(text) for text in texts]


def test_made_up_patterns() -> None:
    seed = random.randrange(1 << 32)
    made = Made(seed)
    cases = [(made.pattern(), [made.text() for _ in range(TEXTS)]) for _ in range(PATTERNS)]
    expected = asked_of_go(cases)
    begun = time.process_time()
    answers = [asked_here(*case) for case in cases]
    took = time.process_time() - begun
    different = [
        (pattern, texts, go, here)
        for (pattern, texts), go, here in zip(cases, expected, answers, strict=True)
        if go != here
    ]
    assert not different, (seed, len(different), different[:3])
    assert took < PATTERNS * 0.01, seed
    # The patterns are worth asking for: errors and texts of either kind are among them.
    errors = sum(bool(error) for error, _ in expected)
    found = [each for _, answer in expected for each in answer]
    assert 0.05 < errors / PATTERNS < 0.5, (seed, errors)
    assert 0.2 < sum(found) / len(found) < 0.8, seed


TEMPLATES = (
    "<$0>",
    "$1",
    "${1}x",
    "$1x",
    "$2-$1",
    "$x",
    "${y}$$",
    "$",
    "a$!b",
    "${",
    "${1",
    "$01",
    "${ 1}",
    "[$3|$4]",
    "é$0é",
)


def test_made_up_patterns_replace() -> None:
    """The groups of the match that Go prefers, in templates of every form."""
    seed = random.randrange(1 << 32)
    made = Made(seed)
    cases = [(made.pattern(), made.one(TEMPLATES), [made.text() for _ in range(TEXTS)]) for _ in range(PATTERNS)]
    different, count = [], 0
    for (pattern, template, texts), go in zip(cases, answers_of_go(cases), strict=True):
        if not go["Error"]:
            count += 1
            here = [Replacing(pattern).replaced(text, template, 10_000) for text in texts]
            if here != go["Replaced"]:
                different.append((pattern, template, texts, go["Replaced"], here))
    assert not different, (seed, len(different), different[:3])
    assert count > PATTERNS / 2


def test_what_replaces_is_bounded() -> None:
    for pattern, text, template in (
        ("(a*)*b|a", "a" * 4000, "x"),
        (".*X|a", "a" * 4000, "x"),
        ("a", "a" * 4000, "$0$0$0$0"),
        (".*", "a" * 4000, "$0" * 2000),
    ):
        begun = time.process_time()
        with pytest.raises(Invalid, match=r"takes too long|has more than"):
            Replacing(pattern).replaced(text, template, 4096)
        assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    "pattern",
    [
        *(rf"(?i)\p{{{each}}}" for each in ("Lu", "Ll", "Lt", "ascii")),
        *(
            r"(?i)[a-z]",
            r"(?i)[^k-s]",
            r"(?i)[\x{391}-\x{3c9}]",
            r"(?i)[\x{1c80}-\x{1c88}]",
            r"(?i)[\x{1f80}-\x{1fff}]",
        ),
        *(r"(?i)\W", r"(?i)\x{131}", "(?i)[İi]", r"(?i)[\x{10400}-\x{1044f}]", r"\p{Cased_Letter}", r"\p{assigned}"),
        *(rf"\p{{{each}}}" for each in ("C", "L", "Lm", "M", "Mc", "N", "Nl", "P", "Pd", "S", "Sc", "Z", "punct")),
    ],
)
def test_characters(pattern: str) -> None:
    """All that have a category here: each Python has its own version of Unicode, and so has Go."""
    codes = (*range(0x2200), *range(0xA640, 0xA6A0), *range(0x10400, 0x10450))
    chars = [chr(code) for code in codes if unicodedata.ucd_3_2_0.category(chr(code)) != "Cn"]
    [expected] = asked_of_go([(pattern, chars)])
    changed = {char for char in chars if unicodedata.ucd_3_2_0.category(char) != unicodedata.category(char)}
    _, found = asked_here(pattern, chars)
    different = [
        char for char, go, here in zip(chars, expected[1], found, strict=True) if go != here and char not in changed
    ]
    assert not expected[0]
    assert not different


@pytest.mark.parametrize(
    "pattern",
    [
        *("(" * 999 + ")" * 999, "(" * 1000 + ")" * 1000, "((x{10}){10}){10}", "((x{10}){10}){11}", "(x{1000}){2}"),
        *("((x{2}){0}){1000}", "x{1000}", "x{1000,}", "x{0,1000}", "x{1001}", "(x*){1000}", "x{1000}{1}", "a" * 999),
        *("(?i)" * 1000 + "x", "x|" * 500, "[a-z]" * 500, ")", "(", "[", "[]", "[^]", "\\", "*", "a|*", "^*", "$+"),
        *("(?i)*", "a(?i)*", r"a\Q\E*", r"a*\Q\E*", "(?:)*", "()*+", "(|a)*", "(a|b)??", "a{,2}", "a{2,1}", "[a-\\d]"),
    ],
)
def test_at_the_bounds(pattern: str) -> None:
    texts = ["", "x", "x" * 999, "x" * 1000, "x" * 1001, "a" * 1001, "a", "b", "a-", "-"]
    assert [asked_here(pattern, texts)] == asked_of_go([(pattern, texts)])


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("(a+)+$", "a" * 9000 + "b", False),
        ("(a|a)*b", "a" * 9000, False),
        ("(x+x+)+y", "x" * 9000, False),
        ("(a?){490}a{490}", "a" * 490, True),
        ("((a{0,10}){0,10}){0,10}b", "a" * 1000, False),
        ("[ab].{0,999}c", "ab" * 500, False),
        ("(?i)(é|[^à-þ]){500}$", "é" * 600, True),
        ("(.*)" * 1000 + "b", "x" * 100, False),
    ],
)
def test_the_slowest_are_quick(pattern: str, text: str, found: bool) -> None:
    begun = time.process_time()
    assert Automaton([pattern]).found_in(text) is found
    assert time.process_time() - begun < 5


def test_several_at_once() -> None:
    automaton = Automaton(["^a", "(", "(?i)B$"], lenient=True)
    assert [automaton.found_in(text) for text in ("ax", "xb", "xa", "bx", "(")] == [True, True, False, False, False]
    assert not Automaton(["("], lenient=True).found_in("(")


def test_what_is_too_large_is_refused_in_words() -> None:
    for patterns in (["(abcdefghijklm){1000}"], ["x{1000}"] * 50, ["[ab]{1000}" * 50]):
        with pytest.raises(NotBuilt, match="more than 10000 steps"):
            Automaton(patterns)


def test_the_scripts_are_those_that_go_has() -> None:
    """To make the table anew: `regexps scripts > engine/re2/scripts.json`."""
    said = subprocess.run([PROGRAMS.place(CACHE, "regexps"), "scripts"], capture_output=True, check=True).stdout
    ours = origin.data("re2/scripts.json")
    if json.loads(said)[""] != json.loads(ours)[""]:
        pytest.skip("this Go is of another Unicode")
    assert said == ours


def test_every_script_begins_and_ends_where_it_does_in_go() -> None:
    cases = []
    for name, distances in json.loads(origin.data("re2/scripts.json")).items():
        if name:
            edges = itertools.accumulate(int(each, 36) for each in distances.split())
            near = {
                chr(edge + step) for edge in edges for step in (-1, 0) if 0xD7FF >= edge > 0 or 0x10FFFF > edge > 0xE000
            }
            cases.append((rf"\p{{{name}}}", sorted(near)))
    assert len(cases) > 100
    assert [asked_here(*case) for case in cases] == asked_of_go(cases)

"""A Dockerfile is anyone's bytes: reading it raises Invalid or nothing, and takes as long as it is long."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.daemon.dockerfile import instructions, parser, words
from engine.daemon.dockerfile.gotext import meant, quoted
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.dockerfile.statements import Dockerfile
from engine.dataclass import replace
from engine.errors import Invalid
from engine.literals import duration

pytestmark = pytest.mark.seldom

SECONDS = 5.0  # each takes one on a machine at its slowest, and minutes without its bound
LARGE = 2**18

PIECES = st.sampled_from(
    [*instructions.TABLE, "from", "FRM", "a", " ", "\n", "\\\n", "\r\n", "\t", "#", "# escape=`\n", "`", "\\", "'", '"']
    + [
        "=",
        "a=b",
        "--from=x ",
        "--mount=type=cache,id=",
        "--",
        "<<E",
        "<<-'E'",
        "\nE\n",
        "[",
        "]",
        '["a"]',
        "$",
        "${",
        "}",
    ]
    + ["${a:-", "${a#", "${a//", "*", "?", "/", "\u00e9", "\x0b", "CMD ", ":", ",", "!", "**/", "[^a]", "AS b"]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)
VALUES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=30))


@contextmanager
def soon() -> Iterator[None]:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SECONDS


def attempt(action: object, *given: object) -> object:
    """The outcome, or None for what is refused."""
    try:
        return action(*given)
    except Invalid:
        return None


@settings(deadline=None, max_examples=100)
@given(st.one_of(TEXTS.map(str.encode), st.binary(max_size=200)))
def test_parsing_raises_nothing_but_invalid(data):
    attempt(parser.parse, data)


@settings(deadline=None, max_examples=100)
@given(TEXTS, VALUES, st.sampled_from("\\`"))
def test_putting_variables_in_raises_nothing_but_invalid(text, variables, escape):
    for way in (words.expand, words.expand_raw, words.expand_list):
        attempt(way, text, variables, escape)


@settings(deadline=None, max_examples=100)
@given(TEXTS, st.lists(st.text("ab./*é\n", min_size=1, max_size=12), max_size=4))
@example("**/", ["/"])
def test_patterns_raise_nothing_but_invalid(text, paths):
    ignore = attempt(Ignore, text)
    for path in paths if ignore else ():
        assert ignore.matches(path) == ignore.matches(path, True)


def printed(dockerfile: Dockerfile) -> bytes:
    """A text of the same instructions, one a line."""
    lines = [f"# escape={dockerfile.escape}"]
    for one in dockerfile.instructions:
        lines += [one.original, *(heredoc.data + heredoc.name for heredoc in one.heredocs)]
    return "\n".join(lines).encode() + b"\n\n"


def unnumbered(dockerfile: Dockerfile) -> list[object]:
    return [replace(one, line=0, last_line=0, gap=0, comments=()) for one in dockerfile.instructions]


@settings(deadline=None, max_examples=100)
@given(TEXTS)
def test_what_is_printed_and_read_again_is_the_same(text):
    read = attempt(parser.statements, text.encode())
    # A line that was cut at its escape and now ends in another one would go on; no printer can say otherwise.
    if read and not any(one.original.endswith(read.escape) or not one.original for one in read.instructions):
        again = parser.statements(printed(read))
        assert unnumbered(again) == unnumbered(read)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=40))
def test_plain_text_in_single_quotes_comes_out_as_it_is(text):
    assert words.expand("'" + text.replace("'", "'\"'\"'") + "'", {}) == text


@settings(deadline=None, max_examples=60)
@given(st.text("0123456789.hmsnuµ +-", max_size=12))
def test_a_duration_is_a_number_or_refused(text):
    assert isinstance(attempt(duration, text), int | None)


HOSTILE_FILES = {
    "one long continued line": b"FROM a\nRUN " + b"x \\\n" * (LARGE // 4),
    "continued by comments": b"FROM a\nRUN x \\\n" + b"# c\n" * (LARGE // 4),
    "empty lines": b"\n" * LARGE,
    "many instructions": b"FROM a\n" + b"ENV a=b\n" * 9000,
    "words without end": b"FROM a\n" + (b"ENV " + b"'" * 60001 + b"\n") * 4,
    "escapes": b"FROM a\n" + (b"ENV a=" + b"\\" * 60000 + b"\n") * 4,
    "pairs in one line": b"FROM a\nENV " + b"a=b \\\n" * (LARGE // 6),
    "brackets": b"FROM a\n" + (b"RUN " + b"[" * 60000 + b"\n") * 4,
    "lists": b"FROM a\n" + (b"RUN " + b'["",' * 15000 + b"\n") * 4,
    "flags": b"FROM a\n" + (b"RUN " + b"--a='b " * 9000 + b"\n") * 4,
    "mounts": b"FROM a\n" + (b"RUN --mount=" + b'"' * 60000 + b" x\n") * 4,
    "a mount's keys": b"FROM a\n" + (b"RUN --mount=" + b"id=a," * 12000 + b" x\n") * 4,
    "heredocs in one line": b"FROM a\nRUN " + b"<<E " * 16000 + b"\n" + b"E\n" * 16000,
    "a heredoc of empty lines": b"FROM a\nRUN <<-E\n" + b"\t\n" * (LARGE // 2) + b"E\n",
    "openings of heredocs": b"FROM a\n" + (b"RUN " + b"<" * 60000 + b"\n") * 4,
    "substitutions": b"FROM a\n" + (b"ENV a=" + b"${a:-" * 12000 + b"\n") * 4,
    "spaces": b"FROM a\n" + (b"RUN" + b" \\ " * 21000 + b"\n") * 4,
    "a directive of spaces": b"#" + b" " * 60000 + b"escape" + b" " * 3000 + b"x\nFROM a",
    "a long word": b"FROM a\n" + b"R" * 60000,
    "durations": b"FROM a\nHEALTHCHECK --interval=" + b"1h" * 30000 + b" CMD x",
    "triggers": b"FROM a\n" + (b"ONBUILD " * 8000 + b"\n") * 4,
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_hostile_file_takes_no_seconds(name):
    with soon():
        attempt(parser.parse, HOSTILE_FILES[name])


HOSTILE_WORDS = {
    "names": "$" * LARGE,
    "quotes": '"\'"' * (LARGE // 3),
    "open quotes": '"$a' * (LARGE // 3),
    "escapes": "\\" * LARGE,
    "openings": "${a:-" * (LARGE // 5),
    "closings": "}" * LARGE,
    "heredocs": "<" * LARGE,
    "stars": "${v#" + "*a" * 200 + "b}",
    "stars to replace": "${v//" + "*a" * 200 + "b/c}",
    "a star that finds nothing": "${v//a*b/c}",
    "stars from behind": "${v%%" + "*a*" * 100 + "b}",
    "question marks": "${v//" + "?" * 80 + "b/c}",
    "a long pattern": "${v#" + "a" * LARGE + "}",
    "all at once": "${v//?/b}",
}


@pytest.mark.parametrize("name", HOSTILE_WORDS)
def test_hostile_words_take_no_seconds(name):
    with soon():
        for way in (words.expand, words.expand_list, words.expand_raw):
            attempt(way, HOSTILE_WORDS[name], {"a": "x", "v": "a" * 100_000})


HOSTILE_PATTERNS = {
    "stars": "*a" * 510 + "b",
    "gaps": "**/" * 340 + "b",
    "gaps and names": "**/a/" * 200 + "b",
    "gaps in names": "a**" * 340 + "b",
    "stars and gaps": "*a**/" * 200 + "b",
    "question marks": "?" * 1024,
    "classes": "[a-z]*" * 170 + "!",
    "an open class": "[a-" * 340,
}


@pytest.mark.parametrize("name", HOSTILE_PATTERNS)
def test_a_hostile_pattern_takes_no_seconds(name):
    with soon():
        ignore = attempt(Ignore, HOSTILE_PATTERNS[name])
        for path in ("a" * 4000, "a/" * 200 + "a", "/".join(["a" * 200] * 10)) if ignore else ():
            ignore.matches(path)


def test_as_many_patterns_as_are_allowed_are_asked_of_many_paths_in_reasonable_time():
    ignore = Ignore("\n".join(f"**/name-{number}/*.tmp" for number in range(500)))
    with soon():
        assert not any(ignore.matches(f"dir/sub/file-{number}") for number in range(2000))


def test_texts_in_errors_are_short_and_printable():
    assert quoted('a\n\t\x00\x1b\u2028"\\é') == '"a\\n\\t\\x00\\x1b\\u2028\\"\\\\é"'
    assert len(quoted("x" * 10**6)) < 300
    assert meant("x" * 10**6, ["from"]) == ""

"""Malformed Dockerfiles: each is refused in the words that dockerd uses.

What dockerd 20.10's classic builder answered (400 and this text) was written down from a running one, each Dockerfile
sent to it alone. A current dockerd says `on line` where that one said `line`, and some texts changed since: those stand
in a table of their own with both.
"""

import pytest

from engine.daemon.builder import stages
from engine.daemon.dockerfile import parser
from engine.errors import Invalid

NO_DESTINATION = "requires at least two arguments, but only one was provided. Destination could not be determined"
BAD_NAME = "name can't start with a number or contain symbols"
# The words follow the line's number, or FILE when the file's form is wrong, or stand alone.
FILE = 0

OF_BOTH = [
    ("", None, "the Dockerfile (Dockerfile) cannot be empty"),
    ("\n\n# only\n", FILE, "file with no instructions"),
    ("RUN ls", None, "no build stage in current context"),
    ("ENV A=1\nFROM scratch", None, "no build stage in current context"),
    ("FROM", 1, "FROM requires either one or three arguments"),
    ("FROM a b", 1, "FROM requires either one or three arguments"),
    ("FROM a as", 1, "FROM requires either one or three arguments"),
    ("FROM a as 1x", 1, 'invalid name for build stage: "1x", ' + BAD_NAME),
    ("FROM a as x y", 1, "FROM requires either one or three arguments"),
    ("FROM scratch AS A_B!", 1, 'invalid name for build stage: "A_B!", ' + BAD_NAME),
    ("FROM scratch\nENV", 2, "ENV requires at least one argument"),
    ("FROM scratch\nENV a", FILE, "ENV must have two arguments"),
    ("FROM scratch\nENV a=b c", FILE, 'Syntax error - can\'t find = in "c". Must be of the form: name=value'),
    ("FROM scratch\nENV =b", 2, "ENV names can not be blank"),
    ("FROM scratch\nLABEL", 2, "LABEL requires at least one argument"),
    ("FROM scratch\nLABEL a", FILE, "LABEL must have two arguments"),
    ("FROM scratch\nLABEL a=b c", FILE, 'Syntax error - can\'t find = in "c". Must be of the form: name=value'),
    ("FROM scratch\nLABEL =b", 2, "LABEL names can not be blank"),
    ("FROM scratch\nARG", 2, "ARG requires at least one argument"),
    ("FROM scratch\nARG =x", 2, "ARG names can not be blank"),
    ("FROM scratch\nCOPY", 2, "COPY " + NO_DESTINATION),
    ("FROM scratch\nCOPY a", 2, "COPY " + NO_DESTINATION),
    ('FROM scratch\nCOPY ["a"]', 2, "COPY " + NO_DESTINATION),
    ("FROM scratch\nCOPY [1, 2]", FILE, "when using JSON array syntax, arrays must be comprised of strings only"),
    ("FROM scratch\nADD", 2, "ADD " + NO_DESTINATION),
    ("FROM scratch\nADD a", 2, "ADD " + NO_DESTINATION),
    ("FROM scratch\nWORKDIR", 2, "WORKDIR requires exactly one argument"),
    ("FROM scratch\nUSER", 2, "USER requires exactly one argument"),
    ("FROM scratch\nEXPOSE", 2, "EXPOSE requires at least one argument"),
    ("FROM scratch\nVOLUME", 2, "VOLUME requires at least one argument"),
    ('FROM scratch\nVOLUME [""]', 2, "VOLUME specified can not be an empty string"),
    ('FROM scratch\nVOLUME ["a", 1]', FILE, "when using JSON array syntax, arrays must be comprised of strings only"),
    ("FROM scratch\nVOLUME []", 2, "VOLUME requires at least one argument"),
    ("FROM scratch\nSHELL", 2, "SHELL requires at least one argument"),
    ("FROM scratch\nSHELL a", 2, "SHELL requires the arguments to be in JSON form"),
    ("FROM scratch\nSHELL []", 2, "SHELL requires at least one argument"),
    ("FROM scratch\nSTOPSIGNAL", 2, "STOPSIGNAL requires exactly one argument"),
    ("FROM scratch\nHEALTHCHECK", 2, "HEALTHCHECK requires at least one argument"),
    ("FROM scratch\nHEALTHCHECK FOO x", 2, 'Unknown type "FOO" in HEALTHCHECK (try CMD)'),
    ("FROM scratch\nHEALTHCHECK CMD", 2, "Missing command after HEALTHCHECK CMD"),
    ("FROM scratch\nHEALTHCHECK NONE x", 2, "HEALTHCHECK NONE takes no arguments"),
    ("FROM scratch\nHEALTHCHECK --interval=x CMD a", 2, 'time: invalid duration "x"'),
    ("FROM scratch\nHEALTHCHECK --interval=5 CMD a", 2, 'time: missing unit in duration "5"'),
    ("FROM scratch\nHEALTHCHECK --interval=1us CMD a", 2, 'Interval "interval" cannot be less than 1ms'),
    ("FROM scratch\nHEALTHCHECK --interval=-1s CMD a", 2, 'Interval "interval" cannot be less than 1ms'),
    ("FROM scratch\nHEALTHCHECK --retries=x CMD a", 2, 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("FROM scratch\nHEALTHCHECK --interval=1x CMD a", 2, 'time: unknown unit "x" in duration "1x"'),
    ("FROM scratch\nHEALTHCHECK --interval=99999999999h CMD a", 2, 'time: invalid duration "99999999999h"'),
    ("FROM scratch\nONBUILD", 2, "ONBUILD requires at least one argument"),
    ("FROM scratch\nONBUILD ONBUILD RUN x", 2, "Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed"),
    ("FROM scratch\nONBUILD FROM x", 2, "FROM isn't allowed as an ONBUILD trigger"),
    ("FROM scratch\nONBUILD maintainer x", 2, "MAINTAINER isn't allowed as an ONBUILD trigger"),
    ("FROM scratch\nONBUILD ENV a", FILE, "ENV must have two arguments"),
    ("FROM scratch\nMAINTAINER", 2, "MAINTAINER requires exactly one argument"),
    ("FROM scratch\nCMD [1]", FILE, "when using JSON array syntax, arrays must be comprised of strings only"),
    ("FROM scratch\nRUN --mount=foo ls", 2, "invalid field 'foo' must be a key=value pair"),
    ("# escape=x\nFROM scratch", FILE, "invalid escape token 'x' does not match ` or \\"),
    ("# escape=`\n# escape=`\nFROM scratch", FILE, "only one escape parser directive can be used"),
    ("FROM scratch\nLABEL a=b \\\n  c\n", FILE, 'Syntax error - can\'t find = in "c". Must be of the form: name=value'),
    ("FROM scratch\nCOPY --chown=1:2", 2, "COPY " + NO_DESTINATION),
]
# The Dockerfile, the line, dockerd 20.10's words, today's.
CHANGED_SINCE = [
    ("FRM a", 1, "unknown instruction: FRM", "unknown instruction: FRM (did you mean FROM?)"),
    ("frm a", 1, "unknown instruction: FRM", "unknown instruction: frm (did you mean from?)"),
    ("Foo a", 1, "unknown instruction: FOO", "unknown instruction: Foo (did you mean from?)"),
    ("RUNX a", 1, "unknown instruction: RUNX", "unknown instruction: RUNX (did you mean RUN?)"),
    ("COPPY a b", 1, "unknown instruction: COPPY", "unknown instruction: COPPY (did you mean COPY?)"),
    ("FROM --platfrm=x scratch", 1, "Unknown flag: platfrm", "unknown flag: --platfrm (did you mean platform?)"),
    ("FROM --platform scratch", 1, "Missing a value on flag: platform", "missing a value on flag: --platform"),
    (
        "FROM --platform=a --platform=b scratch",
        1,
        "Duplicate flag specified: platform",
        "duplicate flag specified: --platform",
    ),
    ("FROM scratch\nENV --x a=b", 2, "Unknown flag: x", "unknown flag: --x"),
    ("FROM scratch\nCOPY --from a b", 2, "Missing a value on flag: from", "missing a value on flag: --from"),
    ("FROM scratch\nCOPY --frm=x a b", 2, "Unknown flag: frm", "unknown flag: --frm (did you mean from?)"),
    (
        "FROM scratch\nCOPY --from=x --from=y a b",
        2,
        "Duplicate flag specified: from",
        "duplicate flag specified: --from",
    ),
    ("FROM scratch\nADD --chwn=1 a b", 2, "Unknown flag: chwn", "unknown flag: --chwn (did you mean chown?)"),
    (
        "FROM scratch\nHEALTHCHECK --retries=-1 CMD a",
        2,
        "--retries must be at least 1 (not -1)",
        "--retries cannot be negative (-1)",
    ),
    ("FROM scratch\nHEALTHCHECK --foo=1 CMD a", 2, "Unknown flag: foo", "unknown flag: --foo"),
    ("FROM scratch\nCMD --x y", 2, "Unknown flag: x", "unknown flag: --x"),
    ("FROM scratch\nRUN --foo=x ls", 2, "Unknown flag: foo", "unknown flag: --foo"),
    ("FROM scratch\n\n\n\nFOO\n", 5, "unknown instruction: FOO", "unknown instruction: FOO (did you mean FROM?)"),
]
# Known to a current dockerd alone (its parser was asked), or beyond it.
OF_TODAY = [
    ("FROM a\nRUN <<EOF\nx\n", FILE, "unterminated heredoc"),
    ("FROM a\nCOPY x <<EOF\nEOF\n", 2, "COPY cannot accept a heredoc as a destination"),
    (
        "FROM a\nCOPY --link=yes x y",
        2,
        "expecting boolean value for flag --link, not: yes",
    ),
    ("FROM a\nCOPY --link= x y", 2, "missing a value on flag: --link"),
    (
        "FROM a\nCOPY --from=$x x y",
        2,
        "'from' doesn't support variable expansion, define alias stage instead",
    ),
    ("FROM a\nRUN --network=x y", 2, 'invalid network mode "x"'),
    ("FROM a\nRUN --security=x y", 2, 'security "x" is not valid'),
    (
        "FROM a\nRUN \\\n  # c\n\n  x\nWORKDI /",
        6,
        "unknown instruction: WORKDI (did you mean WORKDIR?)",
    ),
    ("FROM a\n\\\n", 2, "unknown instruction: "),
    ("FROM a\nRUN x\0y", FILE, "line 2 has a NUL byte, which is not allowed"),
    (
        "FROM a\nRUN <<EOF\n" + "x" * 70000,
        FILE,
        "dockerfile line greater than max allowed size of 65535",
    ),
    ("FROM a\nRUN " + "--mount=target=/x " * 1001, FILE, "an instruction has more than 1000 flags"),
    ("FROM a\nENV " + "a=b " * 10001, FILE, "an instruction has more than 10000 arguments"),
    ("FROM a\nCOPY " + "a " * 10001, FILE, "an instruction has more than 10000 arguments"),
    ("FROM a\nCMD [" + '"",' * 10001 + '""]', FILE, "an instruction has more than 10000 arguments"),
    ("FROM a\n" + "ENV a=b\n" * 10000, FILE, "there are more than 10000 instructions"),
    (
        " " * (2**20 + 1),
        FILE,
        "a Dockerfile of 1048577 bytes is too large: 1048576 are allowed",
    ),
]


def refusal(text: str) -> str:
    """What is said before the first step."""
    with pytest.raises(Invalid) as refused:
        stages.plan(parser.parse(text.encode()), str, "")
    return str(refused.value)


def whole(line: int | None, words: str) -> str:
    """The refusal in full."""
    if line is None:
        return words
    return f"dockerfile parse error on line {line}: {words}" if line else f"failed to parse Dockerfile: {words}"


@pytest.mark.parametrize(("text", "line", "words"), OF_BOTH, ids=[repr(row[0]) for row in OF_BOTH])
def test_a_malformed_dockerfile_is_refused_in_the_words_of_dockerd(text, line, words):
    assert refusal(text) == whole(line, words)


@pytest.mark.parametrize(
    ("text", "line", "before", "words"), CHANGED_SINCE, ids=[repr(row[0]) for row in CHANGED_SINCE]
)
def test_where_dockerd_changed_its_words_they_are_todays(text, line, before, words):
    assert refusal(text) == whole(line, words) != whole(line, before)


@pytest.mark.parametrize(("text", "line", "words"), OF_TODAY, ids=[repr(row[0][:40]) for row in OF_TODAY])
def test_what_only_a_current_dockerd_knows_is_refused_as_there(text, line, words):
    assert refusal(text) == whole(line, words)


def test_the_file_is_named_as_the_client_named_it():
    with pytest.raises(Invalid, match=r"^the Dockerfile \(my/file\) cannot be empty$"):
        parser.parse(b"", "my/file")
    with pytest.raises(Invalid, match=r"^failed to parse my/file: file with no instructions$"):
        parser.parse(b"# nothing", "my/file")


@pytest.mark.parametrize(
    "text", ["FROM scratch\nARG a b", "FROM a\nHEALTHCHECK --retries=0 CMD x", "FROM a\nONBUILD FOO x"]
)
def test_what_looks_odd_but_dockerd_takes_is_taken(text):
    stages.plan(parser.parse(text.encode()), str, "")

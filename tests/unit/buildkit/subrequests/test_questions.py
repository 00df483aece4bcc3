"""What a client asks in the place of a build: the answers, and that a recorded dockerd gave the same one."""

import base64
import json

import pytest

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.lint.review import Around, Review
from engine.daemon.buildkit.lint.walk import review
from engine.daemon.buildkit.subrequests import questions
from engine.daemon.buildkit.subrequests.excerpts import excerpt
from engine.daemon.buildkit.subrequests.source import Source
from engine.daemon.dockerfile.statements import Misplaced
from engine.errors import Invalid, NotBuilt
from engine.protocols import protobuf
from tests.unit.buildkit import recorded
from tests.unit.buildkit.lint.test_lintrules import base


def ask(name: str, text: str, args: dict | None = None, target: str = "") -> tuple[dict, str]:
    """The answer as a document, and as text."""

    def reviewed(every: bool) -> Review:
        return review(text.encode(), Around(base, args or {}, "linux/amd64", target, every))

    answer = questions.answered(name, Source("Dockerfile", text.encode()), reviewed, target)
    assert answer["version"] == b"1.0.0"
    return json.loads(answer["result.json"]), answer["result.txt"].decode()


def test_a_check_is_answered_as_a_recorded_dockerd_did() -> None:
    ours = theirs = None
    for name, pieces in recorded.connections():
        for call in recorded.calls(pieces) if "check" in name else ():
            if call.path.endswith("LLBBridge/Solve"):
                theirs = protobuf.decode(methods.TABLES[call.path][1], call.answered[0])["result"]["metadata"]
    assert theirs
    said = json.loads(theirs["result.json"])
    text = base64.b64decode(said["sources"][0]["data"])
    around = Around(base, every=True)
    ours = questions.answered("frontend.lint", Source("Dockerfile", text), lambda _: review(text, around), "")
    del said["sources"][0]["definition"]  # of the graph that dockerd read the file by
    assert json.loads(ours["result.json"]) == said
    assert {key: value for key, value in ours.items() if key != "result.json"} == {
        key: value for key, value in theirs.items() if key != "result.json"
    }


def test_nothing_wrong_is_told_as_such() -> None:
    document, text = ask("frontend.lint", "FROM scratch\n")
    assert (document["warnings"], text) == (None, "")


def test_a_file_that_cannot_be_built_is_told_with_its_lines() -> None:
    document, _ = ask("frontend.lint", "FROM scratch AS Bad\nRUN \\\n --bad x\n")
    assert [one["ruleName"] for one in document["warnings"]] == ["StageNameCasing"]
    assert document["buildError"]["message"] == "dockerfile parse error on line 2: unknown flag: --bad"
    assert [one["start"]["line"] for one in document["buildError"]["location"]["ranges"]] == [2, 3]


def test_warnings_that_are_errors() -> None:
    document, _ = ask("frontend.lint", "# check=error=true\nFROM scratch as b\ncopy a b\n")
    assert document["buildError"]["message"] == (
        "lint violation found for rules: FromAsCasing, ConsistentInstructionCasing"
    )
    document, _ = ask(
        "frontend.lint", "# check=error=true\nFROM scratch as b\n", {"BUILDKIT_DOCKERFILE_CHECK": "skip=all"}
    )
    assert "buildError" not in document
    with pytest.raises(Invalid, match='failed to parse check options: invalid check option "nothing"'):
        ask("frontend.lint", "# check=nothing=x\nFROM scratch\n")


OUTLINED = """
ARG inherited=box
ARG inherited2=box2
ARG unused=abc${inherited2}
# sfx is a suffix
ARG sfx="usy${inherited}"

FROM b${sfx} AS first
# this is not assigned to anything
ARG FOO=123
# BAR is a number
ARG BAR=456
RUN true

FROM alpine${unused} AS second
ARG BAZ
RUN true

FROM scratch AS third
ARG ABC=a
# alternate will show up in the outline
# check=skip=all
ARG alternate

# target defines build target
FROM third AS target
COPY --from=first /etc/passwd /

FROM second
"""


def test_an_outline_has_the_arguments_that_a_stage_can_use() -> None:
    document, text = ask("frontend.outline", OUTLINED, {"BAR": "678"}, "target")
    assert (document["name"], document["description"]) == ("target", "defines build target")
    assert base64.b64decode(document["sources"][0]).decode() == OUTLINED
    told = [
        (one["name"], one.get("value", ""), one.get("description", ""), one["location"]["ranges"][0]["start"]["line"])
        for one in document["args"]
    ]
    assert told == [
        ("inherited", "box", "", 2),
        ("sfx", "usybox", "is a suffix", 6),
        ("FOO", "123", "", 10),
        ("BAR", "678", "is a number", 12),
        ("ABC", "a", "", 20),
        ("alternate", "", "will show up in the outline", 23),
    ]
    assert text.splitlines()[:5] == [
        "TARGET:      target",
        "DESCRIPTION: defines build target",
        "",
        "BUILD ARG   VALUE    DESCRIPTION",
        "inherited   box      ",
    ]


def test_an_outline_has_the_secrets_and_agents_of_the_stages_that_are_needed() -> None:
    file = """
FROM busybox AS first
RUN --mount=type=secret,target=/etc/passwd,required=true --mount=type=ssh true

FROM busybox AS second
RUN --mount=type=secret,id=unused --mount=type=ssh,id=ssh2 true

FROM scratch AS third
ARG BAR
RUN --mount=type=secret,id=second${BAR} true

FROM third AS target
COPY --from=first /foo /
RUN --mount=type=ssh,id=ssh3,required true

FROM second
"""
    document, text = ask("frontend.outline", file, {"BAR": "678"}, "target")
    told = [
        (kind, one["name"], one.get("required", False), one["location"]["ranges"][0]["start"]["line"])
        for kind in ("secrets", "ssh")
        for one in document[kind]
    ]
    assert told == [
        ("secrets", "passwd", True, 3),
        ("secrets", "second678", False, 10),
        ("ssh", "default", False, 3),
        ("ssh", "ssh3", True, 14),
    ]
    assert "SECRET      REQUIRED\npasswd      true\nsecond678   \n" in text


def test_an_outline_of_a_file_that_cannot_be_built_fails_with_its_line() -> None:
    with pytest.raises(Misplaced, match="nobody") as caught:
        ask("frontend.outline", "FROM nobody")
    assert caught.value.first == 1


def test_targets() -> None:
    file = """
# build defines stage for compiling the binary
FROM busybox AS build
FROM --platform=linux/amd64 busybox as second
FROM busybox
# binary returns the compiled binary
FROM second AS binary
"""
    document, text = ask("frontend.targets", file)
    told = [
        (one.get("name"), one["base"], one.get("description"), one.get("default", False), one.get("platform"))
        for one in document["targets"]
    ]
    assert told == [
        ("build", "busybox", "defines stage for compiling the binary", False, None),
        ("second", "busybox", None, False, "linux/amd64"),
        (None, "busybox", None, False, None),
        ("binary", "second", "returns the compiled binary", True, None),
    ]
    assert [one["location"]["ranges"][0]["start"]["line"] for one in document["targets"]] == [3, 4, 5, 7]
    assert text.splitlines()[-1] == "binary (default) returns the compiled binary"


def test_the_questions_are_listed() -> None:
    document, text = ask("frontend.subrequests.describe", "FROM scratch")
    names = [one["name"] for one in document]
    assert names == ["frontend.outline", "frontend.targets", "frontend.subrequests.describe"]
    assert "targets              1.0.0   List all targets current build supports" in text
    with pytest.raises(NotBuilt, match=r"frontend\.weather"):
        ask("frontend.weather", "FROM scratch")


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(1, 1, "1-3"), (3, 3, "1-5"), (2, 4, "1-5"), (9, 9, "7-10"), (10, 12, "8-10"), (11, 11, ""), (0, 0, "")],
)
def test_an_excerpt_has_lines_around(first: int, last: int, expected: str) -> None:
    text = excerpt("D", "\n".join(str(number) for number in range(1, 11)).encode(), first, last)
    numbers = [line.split("|")[0].strip() for line in text.splitlines() if "|" in line]
    assert (f"{numbers[0]}-{numbers[-1]}" if numbers else "") == expected
    assert [line.split("|")[0].strip() for line in text.splitlines() if ">>>" in line] == [
        str(number) for number in range(max(1, first), min(last, 10) + 1) if expected
    ]

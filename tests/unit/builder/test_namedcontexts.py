"""Names that stand for something else: how clients say so, which one is meant, and stages that are replaced."""

import pytest

from engine.daemon.builder import namedcontexts, stages
from engine.daemon.builder.namedcontexts import NamedContext
from engine.daemon.dockerfile import parser
from engine.errors import Invalid


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("a", "docker-image://busybox:1", NamedContext("a", "", "docker-image", "busybox:1")),
        ("a::linux/amd64", "docker-image://x", NamedContext("a", "linux/amd64", "docker-image", "x")),
        ("a::linux/arm64/v8", "local:x", NamedContext("a", "linux/arm64", "local", "x")),
        ("a", "local:a-1", NamedContext("a", "", "local", "a-1")),
        ("a", "input:0-a", NamedContext("a", "", "input", "0-a")),
        ("a", "oci-layout://s@sha256:1", NamedContext("a", "", "oci-layout", "s@sha256:1")),
        ("a", "https://h/r.git#x", NamedContext("a", "", "git", "https://h/r.git#x")),
        ("a", "git@h:r", NamedContext("a", "", "git", "git@h:r")),
        ("a", "https://h/file", NamedContext("a", "", "web", "https://h/file")),
    ],
)
def test_a_context_is_read(name: str, value: str, expected: NamedContext) -> None:
    assert namedcontexts.read(name, value) == expected


@pytest.mark.parametrize("value", ["", "dir", "target:x", "ftp://x", "file:///etc"])
def test_no_context(value: str) -> None:
    with pytest.raises(Invalid, match="context"):
        namedcontexts.read("a", value)


KNOWN = [
    namedcontexts.read(name, f"local:{place}")
    for name, place in (
        ("alpine", "short"),
        ("ghcr.io/x/y:1", "tagged"),
        ("two", "any"),
        ("two::linux/arm64", "arm"),
        ("docker.io/library/debian:latest", "long"),
    )
]


@pytest.mark.parametrize(
    ("name", "platform", "place"),
    [
        ("alpine", "linux/amd64", "short"),
        ("alpine:latest", "linux/amd64", "short"),
        ("docker.io/library/alpine:latest", "linux/amd64", "short"),
        ("alpine:3", "linux/amd64", None),
        ("ghcr.io/x/y:1", "linux/amd64", "tagged"),
        ("ghcr.io/x/y", "linux/amd64", None),
        ("two", "linux/amd64", "any"),
        ("two", "linux/arm64", "arm"),
        ("debian", "linux/amd64", "long"),
        ("scratch", "linux/amd64", None),
        ("Not A Name", "linux/amd64", None),
    ],
)
def test_which_one_a_name_stands_for(name: str, platform: str, place: str | None) -> None:
    found = namedcontexts.find(KNOWN, name, platform)
    assert (found.place if found else None) == place


def test_a_stage_that_a_context_is_named_like_is_replaced() -> None:
    text = b"FROM nobody AS base\nRUN false\nCOPY --from=other a b\nFROM base AS Two\nRUN true\n"
    text += b"FROM two\nCOPY --from=base a b\n"
    dockerfile = namedcontexts.with_stages_replaced(parser.parse(text), KNOWN[2:3] + KNOWN[:1], "linux/amd64")
    plan = stages.plan(dockerfile, lambda text: text, "")
    told = [(stage.name, stage.base, [one.keyword for one in stage.steps]) for stage in plan.every]
    assert told == [("base", "nobody", ["RUN", "COPY"]), ("two", "two", []), ("", "two", ["COPY"])]
    same = parser.parse(text)
    assert namedcontexts.with_stages_replaced(same, [], "linux/amd64") is same
    assert namedcontexts.with_stages_replaced(same, KNOWN[:1], "linux/amd64") == same

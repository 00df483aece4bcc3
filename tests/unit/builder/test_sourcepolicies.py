"""Policies on sources: what is allowed, what is denied, and what becomes another source."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.daemon.builder import sourcepolicies
from engine.daemon.builder.sourcepolicies import (
    ALLOW,
    CONVERT,
    DENY,
    Constraint,
    PolicyRule,
    Source,
    SourcePolicies,
    checked,
)
from engine.errors import Forbidden, Invalid

ALPINE = Source("docker-image://docker.io/library/alpine:latest")


def policy(*rules: PolicyRule) -> SourcePolicies:
    """One policy of these."""
    return checked([rules])


def test_the_last_rule_that_fits_decides() -> None:
    every, alpine = "docker-image://*", "docker-image://docker.io/library/alpine:*"
    assert policy(PolicyRule(DENY, every), PolicyRule(ALLOW, alpine)).judged(ALPINE) == ALPINE
    with pytest.raises(Forbidden, match="denied by policy: source denied by policy"):
        policy(PolicyRule(ALLOW, alpine), PolicyRule(DENY, every)).judged(ALPINE)
    assert policy(PolicyRule(DENY, every, exact=True)).judged(ALPINE) == ALPINE
    assert policy(PolicyRule(DENY, "https://*")).judged(ALPINE) == ALPINE


def test_each_of_several_policies_has_to_allow() -> None:
    deny, allow = [PolicyRule(DENY, "*")], [PolicyRule(ALLOW, "*")]
    for policies in ([deny, allow], [allow, deny]):
        with pytest.raises(Forbidden):
            checked(policies).judged(ALPINE)
    other = PolicyRule(CONVERT, ALPINE.identifier, target="docker-image://x")
    assert checked([allow, [other]]).judged(ALPINE) == Source("docker-image://x")
    with pytest.raises(Forbidden, match="docker-image://x"):  # the first one judges what the second one makes
        checked([[PolicyRule(DENY, "docker-image://x")], [other]]).judged(ALPINE)


@pytest.mark.parametrize(
    ("pattern", "target", "expected"),
    [
        (
            "docker-image://docker.io/library/alpine:*",
            "docker-image://a/alpine:3.$1",
            "docker-image://a/alpine:3.latest",
        ),
        ("docker-image://docker.io/library/*:*", "oci-layout://m/${1}:x-${2}", "oci-layout://m/alpine:x-latest"),
        ("docker-image://docker.io/*", "local://m/$1$3", "local://m/library/alpine:latest"),
        ("docker-image://docker.io/*", "https://m/$1x$$", "https://m/$"),  # the group is called `1x`
        (ALPINE.identifier, "docker-image://docker.io/library/busybox:1", "docker-image://docker.io/library/busybox:1"),
    ],
)
def test_a_source_is_converted(pattern: str, target: str, expected: str) -> None:
    assert policy(PolicyRule(CONVERT, pattern, target=target)).judged(ALPINE) == Source(expected)


def test_attributes_are_added() -> None:
    rule = PolicyRule(CONVERT, ALPINE.identifier, attributes={"a": "1"})
    found = policy(rule).judged(Source(ALPINE.identifier, {"a": "0", "b": "2"}))
    assert found == Source(ALPINE.identifier, {"a": "1", "b": "2"})


def test_a_circle_of_conversions_ends() -> None:
    one, other = "docker-image://a/b:1", "docker-image://a/b:2"
    with pytest.raises(Invalid, match="too many mutations"):
        policy(PolicyRule(CONVERT, one, target=other), PolicyRule(CONVERT, other, target=one)).judged(Source(one))
    with pytest.raises(Invalid, match=r"too many mutations|has more than"):
        policy(PolicyRule(CONVERT, "https://*", target="https://$1$1")).judged(Source("https://x"))


def test_constraints_choose_by_attributes() -> None:
    only = policy(PolicyRule(DENY, "https://*", constraints=(Constraint("http.checksum", ""),)))
    with pytest.raises(Forbidden):
        only.judged(Source("https://a.example/x"))
    pinned = Source("https://a.example/x", {"http.checksum": "sha256:1"})
    assert only.judged(pinned) == pinned
    other = policy(PolicyRule(DENY, "https://*", constraints=(Constraint("http.checksum", "sha256:1", equal=False),)))
    assert other.judged(pinned) == pinned
    with pytest.raises(Forbidden):
        other.judged(Source("https://a.example/x"))


@given(st.text("ab*:", max_size=12).filter(lambda text: "**" not in text), st.text("ab:*", max_size=12))
def test_stars_match_as_an_expression_does(pattern: str, text: str) -> None:
    expected = re.fullmatch(re.escape(pattern).replace(r"\*", "(.*)"), text)
    assert sourcepolicies._stars(pattern, text) == (list(expected.groups()) if expected else None)


def test_a_hostile_pattern_takes_no_time() -> None:
    begun = time.process_time()
    assert sourcepolicies._stars("*a" * 2000 + "b", "a" * 4000) is None
    assert time.process_time() - begun < 5


def test_policies_are_bounded() -> None:
    rule = PolicyRule(ALLOW, "x")
    with pytest.raises(Invalid, match="more than 1000 rules"):
        checked([[rule] * 600, [rule] * 600])
    with pytest.raises(Invalid, match="too long"):
        policy(PolicyRule(ALLOW, "x" * 5000))
    with pytest.raises(Invalid, match="invalid wildcard"):
        policy(PolicyRule(ALLOW, "x**"))

"""A client's source policy, read: expressions that allow and deny, and what is refused."""

import pytest

from engine.daemon.builder.sourcepolicies import Source, SourcePolicies
from engine.daemon.buildkit import policyreading
from engine.daemon.buildkit.messages import policy
from engine.errors import Forbidden, Invalid

ALPINE = Source("docker-image://docker.io/library/alpine:latest")


def rule(
    action: int, pattern: str, *constraints: policy.AttrConstraint, kind: int = policy.REGEX, target: str = "x"
) -> policy.Rule:
    """One rule of a message."""
    selector: policy.Selector = {"identifier": pattern, "match_type": kind, "constraints": list(constraints)}
    return {"action": action, "selector": selector, "updates": {"identifier": target, "attrs": {}}}


def read(*rules: policy.Rule) -> SourcePolicies:
    """The policy of these."""
    return policyreading.read([None, {"version": 1, "rules": list(rules)}])


def test_an_expression_denies_and_allows() -> None:
    denying = rule(policy.DENY, r"^docker-image://(.*/)+[^/]+$")
    with pytest.raises(Forbidden, match="denied by policy"):
        read(denying).judged(ALPINE)
    assert read(denying, rule(policy.ALLOW, "library/(alpine|busybox):")).judged(ALPINE) == ALPINE
    assert read(denying).judged(Source("https://a.example/x")) == Source("https://a.example/x")


def test_an_expression_for_an_attribute() -> None:
    matches: policy.AttrConstraint = {"key": "k", "value": "^(a|b)+$", "condition": policy.MATCHES}
    denying = read(rule(policy.DENY, "*", matches, kind=policy.WILDCARD))
    with pytest.raises(Forbidden):
        denying.judged(Source("x", {"k": "abba"}))
    assert denying.judged(Source("x", {"k": "abc"})) == Source("x", {"k": "abc"})


def test_what_is_refused() -> None:
    with pytest.raises(Invalid, match=r"error parsing regexp: missing closing \): `\(`"):
        read(rule(policy.DENY, "("))
    with pytest.raises(Invalid, match="more than 64 regular expressions"):
        read(*[rule(policy.DENY, "a")] * 65)
    with pytest.raises(Invalid, match="takes too long"):
        read(rule(policy.CONVERT, "(a*)*b|a")).judged(Source("a" * 4000))


def test_an_expression_converts() -> None:
    """Each part of the name that it finds, as BuildKit does."""
    moved = rule(
        policy.CONVERT, r"^docker-image://docker\.io/(?P<name>.*):latest$", target="docker-image://m/${name}:1"
    )
    assert read(moved).judged(ALPINE) == Source("docker-image://m/library/alpine:1")
    part = rule(policy.CONVERT, "library/", target="other/")
    assert read(part).judged(ALPINE) == Source("docker-image://docker.io/other/alpine:latest")

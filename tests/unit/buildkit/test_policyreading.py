"""A client's source policy, read: expressions that allow and deny, and what is refused."""

import pytest

from engine.daemon.build.sourcepolicies import SourcePolicy
from engine.daemon.buildkit import policyreading
from engine.daemon.buildkit.messages import policy
from engine.errors import Forbidden, Invalid, NotBuilt

ALPINE = "docker-image://docker.io/library/alpine:latest"


def rule(action: int, pattern: str, *constraints: policy.AttrConstraint, kind: int = policy.REGEX) -> policy.Rule:
    """One rule of a message."""
    selector: policy.Selector = {"identifier": pattern, "match_type": kind, "constraints": list(constraints)}
    return {"action": action, "selector": selector, "updates": {"identifier": "x", "attrs": {}}}


def read(*rules: policy.Rule) -> SourcePolicy:
    """The policy of these."""
    return policyreading.read({"version": 1, "rules": list(rules)})


def test_an_expression_denies_and_allows() -> None:
    denying = rule(policy.DENY, r"^docker-image://(.*/)+[^/]+$")
    with pytest.raises(Forbidden, match="denied by policy"):
        read(denying).judged(ALPINE)
    assert read(denying, rule(policy.ALLOW, "library/(alpine|busybox):")).judged(ALPINE) == (ALPINE, {})
    assert read(denying).judged("https://a.example/x") == ("https://a.example/x", {})


def test_an_expression_for_an_attribute() -> None:
    matches: policy.AttrConstraint = {"key": "k", "value": "^(a|b)+$", "condition": policy.MATCHES}
    denying = read(rule(policy.DENY, "*", matches, kind=policy.WILDCARD))
    with pytest.raises(Forbidden):
        denying.judged("x", {"k": "abba"})
    assert denying.judged("x", {"k": "abc"}) == ("x", {"k": "abc"})


def test_what_is_refused() -> None:
    with pytest.raises(Invalid, match=r"error parsing regexp: missing closing \): `\(`"):
        read(rule(policy.DENY, "("))
    with pytest.raises(Invalid, match="more than 64 regular expressions"):
        read(*[rule(policy.DENY, "a")] * 65)
    with pytest.raises(NotBuilt, match="converts by a regular expression"):
        read(rule(policy.CONVERT, "a"))

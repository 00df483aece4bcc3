"""Rules for the sources of a build (buildkit, sourcepolicy/pb/policy.proto)."""

from typing import Annotated, TypedDict

ALLOW, DENY, CONVERT = range(3)
"""PolicyAction."""
EQUAL, NOTEQUAL, MATCHES = range(3)
"""AttrMatch."""
WILDCARD, EXACT, REGEX = range(3)
"""MatchType."""


class AttrConstraint(TypedDict, total=False):
    key: Annotated[str, 1]
    value: Annotated[str, 2]
    condition: Annotated[int, 3]


class Selector(TypedDict, total=False):
    identifier: Annotated[str, 1]
    match_type: Annotated[int, 2]
    constraints: Annotated[list[AttrConstraint], 3]


class Update(TypedDict, total=False):
    identifier: Annotated[str, 1]
    attrs: Annotated[dict[str, str], 2]


class Rule(TypedDict, total=False):
    action: Annotated[int, 1]
    selector: Annotated[Selector | None, 2]
    updates: Annotated[Update | None, 3]


class Policy(TypedDict, total=False):
    version: Annotated[int, 1]
    rules: Annotated[list[Rule], 2]

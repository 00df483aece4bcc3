"""Reads the source policies of a client's message, or of a frontend's, as the rules that a build judges by.

Pure.
"""

import functools
from collections.abc import Mapping, Sequence

from engine.daemon.builder import sourcepolicies
from engine.daemon.builder.sourcepolicies import Constraint, PolicyRule, SourcePolicies
from engine.daemon.buildkit.messages import policy
from engine.errors import Invalid, NotBuilt
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first policy with a regular expression
    from engine.re2 import automaton, replacing
else:
    automaton, replacing = late("engine.re2.automaton"), late("engine.re2.replacing")

_ACTIONS: Mapping[int, str] = {
    policy.ALLOW: sourcepolicies.ALLOW,
    policy.DENY: sourcepolicies.DENY,
    policy.CONVERT: sourcepolicies.CONVERT,
}
_VERSION = 1
_MOST_EXPRESSIONS = 64


class _Expression:
    """A regular expression of one build, which one thread uses at a time."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.found_in = automaton.Automaton([pattern]).found_in

    def replaced(self, text: str, template: str, most: int) -> str:
        """As an `Expression` does."""
        return self._replacing.replaced(text, template, most)

    @functools.cached_property
    def _replacing(self) -> "replacing.Replacing":
        return replacing.Replacing(self._pattern)


def read(messages: Sequence[policy.Policy | None]) -> SourcePolicies:
    """The policies; none for no message. Raises Invalid, and NotBuilt for what expressions cannot do here."""
    found = [message for message in messages if message is not None]
    expressions = 0
    for message in found:
        if message["version"] > _VERSION:
            raise NotBuilt(f"version {message['version']} of source policies is not built in this engine")
        for rule in message["rules"]:
            selector = rule["selector"]
            if selector is not None:
                expressions += selector["match_type"] == policy.REGEX
                expressions += sum(each["condition"] == policy.MATCHES for each in selector["constraints"])
    if expressions > _MOST_EXPRESSIONS:
        raise Invalid(f"the source policies have more than {_MOST_EXPRESSIONS} regular expressions")
    return sourcepolicies.checked([[_rule(each) for each in message["rules"]] for message in found])


def _expression(condition: bool, pattern: str) -> _Expression | None:
    return _Expression(pattern) if condition else None


def _rule(message: policy.Rule) -> PolicyRule:
    selector, updates = message["selector"], message["updates"]
    if selector is None:
        raise Invalid("a rule of the source policy has no selector")
    if message["action"] not in _ACTIONS or selector["match_type"] > policy.REGEX:
        raise Invalid(f"source policy: rule {selector['identifier']}: unknown type")
    action = _ACTIONS[message["action"]]
    if action == sourcepolicies.CONVERT and updates is None:
        raise Invalid("error mutating source policy: missing destination for convert rule")
    constraints = tuple(
        Constraint(
            each["key"],
            each["value"],
            each["condition"] == policy.EQUAL,
            _expression(each["condition"] == policy.MATCHES, each["value"]),
        )
        for each in selector["constraints"]
    )
    return PolicyRule(
        action,
        selector["identifier"],
        selector["match_type"] == policy.EXACT,
        constraints,
        updates["identifier"] if updates is not None else "",
        dict(updates["attrs"]) if updates is not None else {},
        _expression(selector["match_type"] == policy.REGEX, selector["identifier"]),
    )

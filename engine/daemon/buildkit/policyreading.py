"""Reads the source policy of a client's message as the rules that the builder judges by.

Pure.
"""

from collections.abc import Callable, Mapping

from engine.daemon.build import sourcepolicies
from engine.daemon.build.sourcepolicies import Constraint, PolicyRule, SourcePolicy
from engine.daemon.buildkit.messages import policy
from engine.errors import Invalid, NotBuilt
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first policy with a regular expression
    from engine.re2 import automaton
else:
    automaton = late("engine.re2.automaton")

_ACTIONS: Mapping[int, str] = {
    policy.ALLOW: sourcepolicies.ALLOW,
    policy.DENY: sourcepolicies.DENY,
    policy.CONVERT: sourcepolicies.CONVERT,
}
_VERSION = 1
_MOST_EXPRESSIONS = 64


def read(message: policy.Policy | None) -> SourcePolicy:
    """The rules; none for no message. Raises Invalid, and NotBuilt for what expressions cannot do here."""
    if message is None:
        return SourcePolicy()
    if message["version"] > _VERSION:
        raise NotBuilt(f"version {message['version']} of source policies is not built in this engine")
    expressions = 0
    for rule in message["rules"]:
        selector = rule["selector"]
        if selector is not None:
            expressions += selector["match_type"] == policy.REGEX
            expressions += sum(each["condition"] == policy.MATCHES for each in selector["constraints"])
    if expressions > _MOST_EXPRESSIONS:
        raise Invalid(f"a source policy has more than {_MOST_EXPRESSIONS} regular expressions")
    return sourcepolicies.checked([_rule(each) for each in message["rules"]])


def _expression(condition: bool, pattern: str) -> Callable[[str], bool] | None:
    return automaton.Automaton([pattern]).found_in if condition else None


def _rule(message: policy.Rule) -> PolicyRule:
    selector, updates = message["selector"], message["updates"]
    if selector is None:
        raise Invalid("a rule of the source policy has no selector")
    if message["action"] not in _ACTIONS or selector["match_type"] > policy.REGEX:
        raise Invalid(f"source policy: rule {selector['identifier']}: unknown type")
    action = _ACTIONS[message["action"]]
    expression = selector["match_type"] == policy.REGEX
    if expression and action == sourcepolicies.CONVERT:
        raise NotBuilt("a source policy that converts by a regular expression is not built in this engine")
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
        _expression(expression, selector["identifier"]),
    )

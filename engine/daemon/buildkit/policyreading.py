"""Reads the source policy of a client's message as the rules that the builder judges by.

Pure.
"""

from collections.abc import Mapping

from engine.daemon.build import sourcepolicies
from engine.daemon.build.sourcepolicies import Constraint, PolicyRule, SourcePolicy
from engine.daemon.buildkit.messages import policy
from engine.errors import Invalid, NotBuilt

_ACTIONS: Mapping[int, str] = {
    policy.ALLOW: sourcepolicies.ALLOW,
    policy.DENY: sourcepolicies.DENY,
    policy.CONVERT: sourcepolicies.CONVERT,
}
_VERSION = 1


def read(message: policy.Policy | None) -> SourcePolicy:
    """The rules; none for no message. Raises Invalid, and NotBuilt for regular expressions."""
    if message is None:
        return SourcePolicy()
    if message["version"] > _VERSION:
        raise NotBuilt(f"version {message['version']} of source policies is not built in this engine")
    return sourcepolicies.checked([_rule(each) for each in message["rules"]])


def _rule(message: policy.Rule) -> PolicyRule:
    selector, updates = message["selector"], message["updates"]
    if selector is None:
        raise Invalid("a rule of the source policy has no selector")
    if message["action"] not in _ACTIONS or selector["match_type"] > policy.REGEX:
        raise Invalid(f"source policy: rule {selector['identifier']}: unknown type")
    action = _ACTIONS[message["action"]]
    if selector["match_type"] == policy.REGEX or any(
        each["condition"] == policy.MATCHES for each in selector["constraints"]
    ):
        raise NotBuilt("regular expressions in source policies are not built in this engine: use wildcards")
    if action == sourcepolicies.CONVERT and updates is None:
        raise Invalid("error mutating source policy: missing destination for convert rule")
    constraints = tuple(
        Constraint(each["key"], each["value"], each["condition"] == policy.EQUAL) for each in selector["constraints"]
    )
    return PolicyRule(
        action,
        selector["identifier"],
        selector["match_type"] == policy.EXACT,
        constraints,
        updates["identifier"] if updates is not None else "",
        dict(updates["attrs"]) if updates is not None else {},
    )

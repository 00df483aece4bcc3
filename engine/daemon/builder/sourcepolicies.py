"""Policies on the sources of a build: which images, files of servers and repositories it may use, and which instead.

Pure. A rule names sources by `kind://name`. It allows or denies them, and the last rule of a policy that fits decides.
Or it converts them to others, which are judged anew. A `*` in a rule stands for any text, and so does a group of a
regular expression: `$1`, `$2`, ... stand for them in what a source is converted to. Source: buildkit, sourcepolicy.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.daemon.dockerfile.gotext import quoted
from engine.dataclass import dataclass, field
from engine.errors import Forbidden, Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first source that a rule converts
    from engine.re2 import template
else:
    template = late("engine.re2.template")

ALLOW, DENY, CONVERT = "allow", "deny", "convert"
LONGEST = 4096
"""The most characters of a source's name."""
_KINDS = {"docker-image": "image", "oci-layout": "oci", "local": "local", "git": "git", "http": "http", "https": "http"}
"""Kinds of sources, and how the names of their attributes begin."""
_MOST_RULES = 1000
_MOST_CONVERSIONS = 20


@dataclass(frozen=True, slots=True)
class Source:
    """One source, as a graph has it: `kind://name`, and what else decides what it is."""

    identifier: str
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What stands before its name."""
        return self.identifier.partition("://")[0]

    @property
    def name(self) -> str:
        """What stands behind its kind."""
        return self.identifier.partition("://")[2]

    def without_others(self) -> "Source":
        """The source without attributes of other kinds, which BuildKit passes over where a source was converted."""
        others = {each for each in _KINDS.values() if each != _KINDS.get(self.kind)}
        return Source(self.identifier, {key: self.attributes[key] for key in self.attributes if _of(key) not in others})


class Expression(Protocol):
    """A regular expression."""

    def found_in(self, text: str, /) -> bool:
        """Whether it is found."""

    def replaced(self, text: str, template: str, most: int, /) -> str:
        """The text with what is found replaced. Raises Invalid for more than `most` characters."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """An attribute that a source must have with this value, or with another one, or with one that is found fitting."""

    key: str
    value: str
    equal: bool = True
    expression: Expression | None = None

    def holds(self, attributes: Mapping[str, str]) -> bool:
        """Whether it does for a source with these."""
        value = attributes.get(self.key, "")
        return self.expression.found_in(value) if self.expression is not None else (value == self.value) == self.equal


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule. pattern: of sources; exact: a `*` in it is no wildcard; expression: what it is, if it is one

    target, attributes: what a source is converted to; an empty target is the pattern
    """

    action: str
    pattern: str
    exact: bool = False
    constraints: tuple[Constraint, ...] = ()
    target: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    expression: Expression | None = None


@dataclass(frozen=True, slots=True)
class SourcePolicies:
    """The policies of one build, in order, each with its rules."""

    policies: tuple[tuple[PolicyRule, ...], ...] = ()

    def judged(self, source: Source) -> Source:
        """The source that is to be used. Raises Forbidden for one that is denied, Invalid."""
        for _ in range(_MOST_CONVERSIONS + 1):
            changed = next((found for rules in self.policies if (found := _once(rules, source)) is not None), None)
            if changed is None:
                return source
            source = changed
        raise Invalid("too many mutations on a single source: too many operations")


def _of(key: str) -> str:
    return key.partition(".")[0]


def _once(rules: Sequence[PolicyRule], source: Source) -> Source | None:
    """What the first rule that changes the source makes of it; None where none does."""
    denied = False
    for rule in rules:
        taken = _fits(rule, source)
        if taken is None:
            continue
        if rule.action == CONVERT:
            name = _converted(rule, source.identifier, taken) or source.identifier
            changed = Source(name, dict(source.attributes) | dict(rule.attributes))
            if changed != source:
                return changed
        else:
            denied = rule.action == DENY
    if denied:
        raise Forbidden(f"source {quoted(source.identifier)} denied by policy: source denied by policy")
    return None


def checked(policies: Sequence[Sequence[PolicyRule]]) -> SourcePolicies:
    """The policies of these rules. Raises Invalid."""
    every = [rule for rules in policies for rule in rules]
    if len(every) > _MOST_RULES:
        raise Invalid(f"the source policies have more than {_MOST_RULES} rules")
    for rule in every:
        if max(len(rule.pattern), len(rule.target)) > LONGEST:
            raise Invalid("a rule of the source policy is too long")
        if not rule.exact and rule.expression is None and "**" in rule.pattern:
            raise Invalid(f'failed to translate wildcard {quoted(rule.pattern)} to regexp: invalid wildcard: "**"')
    return SourcePolicies(tuple(tuple(rules) for rules in policies))


def _fits(rule: PolicyRule, source: Source) -> list[str] | None:
    """The texts that the stars of the rule stand for; None where the rule is not about this source."""
    if not all(each.holds(source.attributes) for each in rule.constraints):
        return None
    if rule.pattern == source.identifier:
        return ["*"] * rule.pattern.count("*")
    if rule.expression is not None:
        return [] if rule.expression.found_in(source.identifier) else None
    return None if rule.exact else _stars(rule.pattern, source.identifier)


def _stars(pattern: str, text: str) -> list[str] | None:
    """The texts that the stars stand for, the first one as long as it can be, in time linear to each of them."""
    first, *others = pattern.split("*")
    if not others:
        return [] if pattern == text else None
    last = others.pop()
    if len(first) + len(last) > len(text) or not text.startswith(first) or not text.endswith(last):
        return None
    end = len(text) - len(last)
    taken: list[str] = []
    for part in reversed(others):
        at = text.rfind(part, len(first), end)
        if at < 0:
            return None
        taken.append(text[at + len(part) : end])
        end = at
    return [text[len(first) : end], *reversed(taken)]


def _converted(rule: PolicyRule, identifier: str, taken: list[str]) -> str:
    """The name that a rule gives a source in the place of its own. Raises Invalid for one that is too long."""
    target = rule.target or rule.pattern
    if rule.exact:
        return target
    if rule.expression is not None:
        return rule.expression.replaced(identifier, target, LONGEST)
    groups = {str(number): text for number, text in enumerate([identifier, *taken])}
    return template.expanded(target, groups, LONGEST)

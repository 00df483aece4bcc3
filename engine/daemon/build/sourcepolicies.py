"""Policies on the sources of a build: which images, files of servers and repositories it may use, and which instead.

Pure. A rule names sources by `kind://name`. It allows or denies them, and the last rule that fits decides. Or it
converts them to others, which are judged anew. A `*` in a rule stands for any text, which `$1`, `$2`, ... stand for in
what a source is converted to. A regular expression (REGEX) allows or denies. Source: buildkit, sourcepolicy.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from engine.daemon.build import urls
from engine.daemon.dockerfile import commands
from engine.daemon.dockerfile.gotext import quoted
from engine.daemon.images.reference import Reference
from engine.dataclass import dataclass, field, replace
from engine.errors import Forbidden, Invalid, NotBuilt

ALLOW, DENY, CONVERT = "allow", "deny", "convert"
IMAGE, GIT, CHECKSUM = "docker-image://", "git://", "http.checksum"
_MOST_RULES = 1000
_LONGEST = 4096
_MOST_CONVERSIONS = 20
_TAKEN = re.compile(r"\$(?:\{(?a:(\d{1,2}))\}|(?a:(\d{1,2})))")


@dataclass(frozen=True, slots=True)
class Constraint:
    """An attribute that a source must have with this value, or with another one, or with one that is found fitting."""

    key: str
    value: str
    equal: bool = True
    found_in: Callable[[str], bool] | None = None

    def holds(self, attributes: Mapping[str, str]) -> bool:
        """Whether it does for a source with these."""
        value = attributes.get(self.key, "")
        return self.found_in(value) if self.found_in is not None else (value == self.value) == self.equal


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule. pattern: of sources; exact: a `*` in it is no wildcard; found_in: what it is as an expression, if it is

    target, attributes: what a source is converted to; an empty target is the pattern
    """

    action: str
    pattern: str
    exact: bool = False
    constraints: tuple[Constraint, ...] = ()
    target: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    found_in: Callable[[str], bool] | None = None


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """The rules of one build, in order."""

    rules: tuple[PolicyRule, ...] = ()

    def judged(self, identifier: str, attributes: Mapping[str, str] | None = None) -> tuple[str, dict[str, str]]:
        """The source that is to be used, with its attributes. Raises Forbidden for one that is denied, Invalid."""
        found, own = identifier, dict(attributes or {})
        for _ in range(_MOST_CONVERSIONS + 1):
            changed = self._once(found, own)
            if changed is None:
                return found, own
            found, own = changed
        raise Invalid("too many mutations on a single source")

    def _once(self, identifier: str, attributes: dict[str, str]) -> tuple[str, dict[str, str]] | None:
        """What the first rule that changes the source makes of it; None where none does."""
        denied = False
        for rule in self.rules:
            taken = _fits(rule, identifier, attributes)
            if taken is None:
                continue
            if rule.action == CONVERT:
                target = rule.target or rule.pattern
                found = (target if rule.exact else _filled(target, taken)) or identifier
                changed = attributes | dict(rule.attributes)
                if (found, changed) != (identifier, attributes):
                    return found, changed
            else:
                denied = rule.action == DENY
        if denied:
            raise Forbidden(f"source {quoted(identifier)} denied by policy: source denied by policy")
        return None

    def image(self, name: str) -> str:
        """The name of the image that is to be used for this one. Raises as `judged`, and NotBuilt."""
        if not self.rules:
            return name
        try:
            whole = Reference.parse(name).with_default_tag().canonical
        except Invalid:  # an id, which no policy can name but by `*`
            self.plain(IMAGE + name, f"the image {name}")
            return name
        found, _ = self.judged(IMAGE + whole)
        if not found.startswith(IMAGE):
            raise NotBuilt(f"converting the image {name} to {found} is not built in this engine")
        return name if found == IMAGE + whole else found.removeprefix(IMAGE)

    def unchanged(self, url: str) -> None:
        """Raise Forbidden for the URL of a file or repository that is denied, NotBuilt for one that is converted."""
        if not self.rules:
            return
        address = urls.repository(url)
        name = url
        if address is not None:
            name = GIT + (address.remote.partition("://")[2] or address.remote)
            name = f"{name}#{address.ref}" if address.ref else name
        self.plain(name, f"the source {address.shown if address is not None else url}")

    def plain(self, identifier: str, shown: str = "") -> None:
        """Raise Forbidden for a source that is denied, NotBuilt for one that is converted. shown: what it is, in words

        identifier: as BuildKit's graphs have it, such as `local://context`
        """
        if self.rules and self.judged(identifier) != (identifier, {}):
            raise NotBuilt(f"converting {shown or identifier} by a policy is not built in this engine")

    def added(self, command: commands.Add) -> commands.Add:
        """The ADD with the sources that are to be used. Raises as `judged`, and NotBuilt."""
        checksum = command.checksum
        sources: list[str] = []
        for source in command.sources:
            address = urls.repository(source) if not source.startswith("github.com/") else None
            if not self.rules or (address is None and not urls.is_url(source)):
                sources.append(source)
                continue
            if address is not None:
                self.unchanged(source)
                sources.append(source)
                continue
            found, attributes = self.judged(source, {CHECKSUM: checksum} if checksum else {})
            if not urls.is_url(found):
                raise NotBuilt(f"converting the file {source} to {found} is not built in this engine")
            checksum = attributes.get(CHECKSUM, checksum)
            sources.append(found)
        return replace(command, sources=tuple(sources), checksum=checksum)


def checked(rules: Sequence[PolicyRule]) -> SourcePolicy:
    """The policy of these rules. Raises Invalid."""
    if len(rules) > _MOST_RULES:
        raise Invalid(f"a source policy has more than {_MOST_RULES} rules")
    for rule in rules:
        if max(len(rule.pattern), len(rule.target)) > _LONGEST:
            raise Invalid("a rule of the source policy is too long")
        if not rule.exact and rule.found_in is None and "**" in rule.pattern:
            raise Invalid(f'failed to translate wildcard {quoted(rule.pattern)} to regexp: invalid wildcard: "**"')
    return SourcePolicy(tuple(rules))


def _fits(rule: PolicyRule, identifier: str, attributes: Mapping[str, str]) -> list[str] | None:
    """The texts that the stars of the rule stand for; None where the rule is not about this source."""
    if not all(each.holds(attributes) for each in rule.constraints):
        return None
    if rule.pattern == identifier:
        return ["*"] * rule.pattern.count("*")
    if rule.found_in is not None:
        return [] if rule.found_in(identifier) else None
    return None if rule.exact else _stars(rule.pattern, identifier)


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


def _filled(target: str, taken: list[str]) -> str:
    def put(match: re.Match[str]) -> str:
        number = match[1] or match[2]
        place = next((at for at in range(len(taken)) if str(at + 1) == number), None)
        return "" if place is None else taken[place]

    filled = _TAKEN.sub(put, target)
    if len(filled) > _LONGEST:
        raise Invalid("a source that the policy converts has too long a name")
    return filled

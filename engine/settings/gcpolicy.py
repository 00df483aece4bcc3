"""Reads what daemon.json says of the build cache's garbage collection: {"builder": {"gc": {...}}}.

Pure. The form is dockerd's: names in any case, sizes as `20GB` (powers of 1024), `keepStorage` for `reservedSpace`.
"""

import json

from engine.annotating import Any
from engine.commandline import Structured
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import duration, size
from engine.settings import configfile

_THOUSAND = 1024
_FORMER = {"keepstorage": "reservedspace", "defaultkeepstorage": "defaultreservedspace"}
_SPACES = ("reservedspace", "maxusedspace", "minfreespace")
_FILTERS = frozenset({"until", "unused-for", "id", "type", "description", "parent", "mutable", "shared", "private"})
_TIMES = frozenset({"until", "unused-for"})
_MOST_RULES = 100


@dataclass(frozen=True, slots=True)
class GcRule:
    """What goes: records that the filters choose, while there is too much.

    all: also what images with names stand on; filters: (name, value) each
    reserved, most, free: bytes that may stay, that may stay at most, and that are to be free; 0 for no such bound
    """

    all: bool = False
    filters: tuple[tuple[str, str], ...] = ()
    reserved: int = 0
    most: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True)
class GcPolicy(Structured):
    """Whether the cache is tended, and how. rules: None for the engine's own, with the bounds of `default`"""

    enabled: bool = True
    default: GcRule = GcRule()
    rules: tuple[GcRule, ...] | None = None


def read(value: object) -> GcPolicy:
    """The policy of an object `gc`. Raises Invalid."""
    known = _lowered(value, {"enabled", "policy", *(f"default{name}" for name in _SPACES)})
    enabled, rules = known.get("enabled", True), known.get("policy")
    if not isinstance(enabled, bool):
        raise Invalid(f"gc.enabled: expected true or false, got {json.dumps(enabled)}")
    if rules is not None and (not isinstance(rules, list) or len(rules) > _MOST_RULES):
        raise Invalid(f"gc.policy: expected a list of at most {_MOST_RULES} rules")
    default = GcRule(False, (), *(_bytes(known, f"default{name}") for name in _SPACES))
    return GcPolicy(enabled, default, None if rules is None else tuple(map(_rule, rules)))


def _rule(value: object) -> GcRule:
    known = _lowered(value, {"all", "filter", *_SPACES})
    everything = known.get("all", False)
    if not isinstance(everything, bool):
        raise Invalid(f"gc.policy.all: expected true or false, got {json.dumps(everything)}")
    return GcRule(everything, tuple(_filters(known.get("filter") or [])), *(_bytes(known, name) for name in _SPACES))


def _lowered(value: object, names: set[str]) -> dict[str, Any]:
    """The members of an object by their names in lower case, those of today. Raises Invalid for others."""
    found = configfile.members(value, (*names, *_FORMER))
    found = {_FORMER.get(name, name): found[name] for name in sorted(found)}
    if others := sorted(found.keys() - names):
        raise Invalid(f"gc: unknown {', '.join(others)}")
    return found


def _bytes(known: dict[str, Any], name: str) -> int:
    value = known.get(name) or ""
    if not isinstance(value, str):
        raise Invalid(f"gc.{name}: expected a size, got {json.dumps(value)}")
    try:
        return size(value, _THOUSAND) if value else 0
    except Invalid as error:
        raise Invalid(f"failed to parse {name}: {error}") from error


def _filters(value: object) -> list[tuple[str, str]]:
    """The filters `name=value` of a rule. Raises Invalid."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Invalid(f"gc.policy.filter: expected a list of strings, got {json.dumps(value)}")
    return [_filter(each) for each in value]


def _filter(text: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in text.partition("="))
    name, value = name.lower(), value.removeprefix("=").strip()
    if not equals or name not in _FILTERS:
        raise Invalid(f"gc.policy.filter: {text}: give NAME=VALUE with one of {', '.join(sorted(_FILTERS))}")
    if name in _TIMES:
        duration(value)
    return name, value

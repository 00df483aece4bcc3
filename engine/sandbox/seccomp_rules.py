"""The data classes of a seccomp profile that the compiler uses, and their reader from docker's JSON format.

Pure. A client's profile is checked before (`seccomp_profile`): here a text is assumed to be right.
"""

import json

from engine.dataclass import dataclass


@dataclass(slots=True, repr=False)
class Condition:
    """A comparison of one of a call's arguments.

    operator: SCMP_CMP_*; second: what a masked value is compared with
    """

    index: int
    operator: str | None
    value: int
    second: int


@dataclass(slots=True, repr=False, eq=False)
class Surroundings:
    """The conditions under which a rule applies, or does not: architectures, capabilities, the oldest kernel."""

    arches: tuple[str, ...]
    capabilities: tuple[str, ...]
    kernel: str


@dataclass(slots=True, repr=False, eq=False)
class Rule:
    """What is done when one of these system calls is made. action: SCMP_ACT_*; errno: the errno that it returns."""

    names: tuple[str, ...]
    action: str | None
    errno: int | None
    conditions: tuple[Condition, ...]
    includes: Surroundings
    excludes: Surroundings


@dataclass(slots=True, repr=False, eq=False)
class Profile:
    """All the rules, and what is done where no rule applies.

    architectures: those that the filter answers for beside the machine's own; families: the same, by the machine's own
        architecture
    """

    action: str | None
    errno: int | None
    architectures: tuple[str, ...]
    families: tuple[tuple[str, tuple[str, ...]], ...]
    rules: tuple[Rule, ...]


def read(text: str | bytes) -> Profile:
    """The profile of a text that is a valid one."""
    found = json.loads(text)
    rules = []
    for each in found.get("syscalls") or ():
        includes, excludes = (
            Surroundings(tuple(part.get("arches") or ()), tuple(part.get("caps") or ()), part.get("minKernel") or "")
            for part in (each.get("includes") or {}, each.get("excludes") or {})
        )
        conditions = tuple(
            Condition(one.get("index") or 0, one.get("op"), one.get("value") or 0, one.get("valueTwo") or 0)
            for one in each.get("args") or ()
        )
        names = tuple(each.get("names") or [each.get("name") or ""])
        rules.append(Rule(names, each.get("action"), each.get("errnoRet"), conditions, includes, excludes))
    families = (
        (row.get("architecture"), tuple(row.get("subArchitectures") or ())) for row in found.get("archMap") or ()
    )
    return Profile(
        found.get("defaultAction"),
        found.get("defaultErrnoRet"),
        tuple(found.get("architectures") or ()),
        tuple(families),
        tuple(rules),
    )

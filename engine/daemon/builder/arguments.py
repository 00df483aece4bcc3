"""Build arguments (ARG, --build-arg): which a step sees, their values, and which of the client's no ARG has named.

Pure. An ARG before the first FROM serves the FROMs, and each stage that names it in an ARG again. An ARG of a stage
serves the steps that follow it. The proxy arguments need no ARG, and are no part of an image's history. The rules in
which the two builders differ stand in `dialect`.
"""

from collections.abc import Callable, Iterable, Mapping

from engine.daemon.builder.dialect import CLASSIC, Dialect
from engine.daemon.dockerfile.scope import PREDEFINED
from engine.daemon.dockerfile.words import Counted, Growth
from engine.literals import BOOLEANS

SCAN_CONTEXT, SCAN_STAGE = "BUILDKIT_SBOM_SCAN_CONTEXT", "BUILDKIT_SBOM_SCAN_STAGE"
"""Arguments that say of what else a bill of materials is wanted. No step sees them, as with BuildKit."""


class Arguments:
    """The build arguments of one stage.

    given: the client's; automatic: those that name the platforms of the build (TARGETPLATFORM, ...)
    dialect: the rules of the builder
    The set of names that an ARG has named is shared by all stages of a build, as is what texts may grow by.
    """

    def __init__(self, given: Mapping[str, str | None], automatic: Mapping[str, str], dialect: Dialect = CLASSIC):
        self.dialect = dialect
        self._given = given
        self._automatic = automatic
        self._meta: dict[str, str | None] = {}
        self._declared: dict[str, str | None] = {}
        self._hidden: set[str] = set()  # by an ENV after their ARG
        self._consumed: set[str] = set()
        self.growth = Growth()

    def of_stage(self) -> "Arguments":
        """The arguments of a new stage.

        It knows what was declared before the first FROM, and declares nothing itself.
        """
        made = Arguments(self._given, self._automatic, self.dialect)
        made._meta, made._consumed, made.growth = self._meta, self._consumed, self.growth
        return made

    def above(self) -> "Arguments":
        """The arguments of a stage that stands on this one."""
        made = self.of_stage()
        if self.dialect.stages_inherit:
            made._declared, made._hidden = dict(self._declared), set(self._hidden)
        return made

    def value(self, name: str, default: str | None, expand: Callable[[str], str]) -> str | None:
        """The value that an ARG gets where it stands, None for none. expand: for a default that is needed"""
        if default is not None and self._given.get(name) is None:
            return expand(default)
        return self._value(name, None)

    def hide(self, names: Iterable[str]) -> None:
        """Take up an ENV of these names, which hides the arguments before it."""
        self._hidden.update(names)

    def declare_before(self, name: str, default: str | None) -> None:
        """Take up an ARG that stands before the first FROM."""
        if default is not None or not self.dialect.arguments_in_turn:
            self._meta[name] = default
        self._consumed.add(name)

    def declare(self, name: str, default: str | None) -> None:
        """Take up an ARG that stands in the stage."""
        if default is not None or name not in self._declared or not self.dialect.arguments_in_turn:
            self._declared[name] = default
        if default is not None:
            self._hidden.discard(name)
        self._consumed.add(name)

    def of_from(self) -> Counted:
        """The names and values that a FROM sees, and an ARG before the first FROM."""
        return Counted({**self._automatic, **self._values(self._meta)}, self.growth)

    def visible(self) -> dict[str, str]:
        """The arguments that the stage's steps see."""
        if self.dialect.arguments_in_turn:  # each value is the last one, and a client's is in it
            found = {name: value for name, value in self._declared.items() if value is not None}
        else:
            found = self._values(dict.fromkeys(PREDEFINED) | self._declared)
        unseen = {SCAN_CONTEXT, SCAN_STAGE, *self._hidden}
        return {name: value for name, value in found.items() if name not in unseen}

    def proxies(self) -> dict[str, str]:
        """The client's proxies as a command has them beside its other variables: each in both spellings."""
        found: dict[str, str] = {}
        for name in sorted(self._given.keys() & PREDEFINED) if self.dialect.proxies_twice else ():
            found |= dict.fromkeys((name.upper(), name.lower()), self._given[name] or "")
        return {name: value for name, value in found.items() if value}

    def turns_on(self, name: str, stage: str) -> bool:
        """Whether an argument that an ARG has named says yes for a stage: with a boolean, or by the stage's name."""
        value = self._values(self._meta | self._declared).get(name, "")
        return BOOLEANS[value] if value in BOOLEANS else stage in value.split(",")

    def shown(self, visible: Iterable[str]) -> list[str]:
        """Those of these names that an image's history shows: a proxy argument is shown only where an ARG names it."""
        return [name for name in visible if name not in PREDEFINED or name in self._declared or name in self._meta]

    def history(self, visible: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
        """What the history of a command says of its arguments, before its words.

        visible: those that no ENV hides; environment: all variables of the step
        """
        if self.dialect.arguments_in_turn:
            found = [f"{name}={environment.get(name, value or '')}" for name, value in self._declared.items()]
            return [f"|{len(found)}", *found] if found else []
        found = [f"{name}={visible[name]}" for name in sorted(self.shown(visible))]
        return [f"|{len(found)}", *found] if visible else []

    def unused(self) -> list[str]:
        """The client's arguments that no ARG has named, sorted, without the proxy arguments, which need no ARG."""
        return sorted(name for name in self._given if name not in self._consumed and name not in PREDEFINED)

    def _values(self, named: Mapping[str, str | None]) -> dict[str, str]:
        found = {name: self._value(name, default) for name, default in named.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _value(self, name: str, default: str | None) -> str | None:
        if self._given.get(name) is not None:
            return self._given[name]
        if default is not None:
            return default
        if self._meta.get(name) is not None:
            return self._meta[name]
        return self._automatic.get(name)

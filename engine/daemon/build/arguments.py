"""Build arguments (ARG, --build-arg): which a step sees, their values, and which of the client's no ARG has named.

Pure. The rules are the classic builder's. An ARG before the first FROM serves the FROMs, and each stage that names it
in an ARG again. An ARG of a stage serves the steps that follow it. The proxy arguments need no ARG, and are no part of
an image's history.
"""

from collections.abc import Iterable, Mapping

from engine.daemon.dockerfile.scope import PREDEFINED
from engine.daemon.dockerfile.words import Counted, Growth
from engine.literals import BOOLEANS

SCAN_CONTEXT, SCAN_STAGE = "BUILDKIT_SBOM_SCAN_CONTEXT", "BUILDKIT_SBOM_SCAN_STAGE"
"""Arguments that say of what else a bill of materials is wanted. No step sees them, as with BuildKit."""


class Arguments:
    """The build arguments of one stage.

    given: the client's; automatic: those that name the platforms of the build (TARGETPLATFORM, ...)
    The set of names that an ARG has named is shared by all stages of a build, as is what texts may grow by.
    """

    def __init__(self, given: Mapping[str, str | None], automatic: Mapping[str, str]):
        self._given = given
        self._automatic = automatic
        self._meta: dict[str, str | None] = {}
        self._declared: dict[str, str | None] = {}
        self._consumed: set[str] = set()
        self.growth = Growth()

    def of_stage(self) -> "Arguments":
        """The arguments of a new stage.

        It knows what was declared before the first FROM, and declares nothing itself.
        """
        made = Arguments(self._given, self._automatic)
        made._meta, made._consumed, made.growth = self._meta, self._consumed, self.growth
        return made

    def above(self) -> "Arguments":
        """The arguments of a stage that stands on this one, and inherits what it declares, as with BuildKit."""
        made = self.of_stage()
        made._declared = dict(self._declared)
        return made

    def declare_before(self, name: str, default: str | None) -> None:
        """Take up an ARG that stands before the first FROM."""
        self._meta[name] = default
        self._consumed.add(name)

    def declare(self, name: str, default: str | None) -> None:
        """Take up an ARG that stands in the stage."""
        self._declared[name] = default
        self._consumed.add(name)

    def of_from(self) -> Counted:
        """The names and values that a FROM sees, and an ARG before the first FROM."""
        return Counted({**self._automatic, **self._values(self._meta)}, self.growth)

    def visible(self) -> dict[str, str]:
        """The arguments that the stage's steps see.

        A variable of ENV with the same name takes precedence (`State.environment`).
        """
        found = self._values(dict.fromkeys(PREDEFINED) | self._declared)
        return {name: value for name, value in found.items() if name not in (SCAN_CONTEXT, SCAN_STAGE)}

    def turns_on(self, name: str, stage: str) -> bool:
        """Whether an argument that an ARG has named says yes for a stage: with a boolean, or by the stage's name."""
        value = self._values(self._meta | self._declared).get(name, "")
        return BOOLEANS[value] if value in BOOLEANS else stage in value.split(",")

    def shown(self, visible: Iterable[str]) -> list[str]:
        """Those of these names that an image's history shows: a proxy argument is shown only where an ARG names it."""
        return [name for name in visible if name not in PREDEFINED or name in self._declared or name in self._meta]

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

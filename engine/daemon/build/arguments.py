"""Build arguments: which a step sees, with which value, and which of the client's nothing has asked for.

Pure. The rules are the classic builder's: ARG before the first FROM serves the FROMs, and a stage that names it again;
a stage's own serve what follows them; the proxies' need no ARG, and are no part of an image's history.
"""

from collections.abc import Iterable, Mapping

from engine.daemon.dockerfile.scope import PREDEFINED


class Arguments:
    """One stage's arguments; `given` are the client's, `automatic` those that say the platforms.

    consumed is shared by all stages of a build
    """

    def __init__(self, given: Mapping[str, str | None], automatic: Mapping[str, str]):
        self._given = given
        self._automatic = automatic
        self._meta: dict[str, str | None] = {}
        self._declared: dict[str, str | None] = {}
        self._consumed: set[str] = set()

    def of_stage(self) -> "Arguments":
        """Those of a new stage: what stands before the first FROM is known, nothing is declared."""
        made = Arguments(self._given, self._automatic)
        made._meta, made._consumed = self._meta, self._consumed
        return made

    def declare_before(self, name: str, default: str | None) -> None:
        """An ARG before the first FROM."""
        self._meta[name] = default
        self._consumed.add(name)

    def declare(self, name: str, default: str | None) -> None:
        """An ARG of the stage."""
        self._declared[name] = default
        self._consumed.add(name)

    def of_from(self) -> dict[str, str]:
        """What a FROM, and an ARG before it, sees."""
        return {**self._automatic, **self._values(self._meta)}

    def visible(self) -> dict[str, str]:
        """What the stage's steps see, but for variables of ENV, which go before."""
        return self._values(dict.fromkeys(PREDEFINED) | self._declared)

    def shown(self, visible: Iterable[str]) -> list[str]:
        """Of these names those that belong into history: the proxies' only where an ARG names them."""
        return [name for name in visible if name not in PREDEFINED or name in self._declared or name in self._meta]

    def unused(self) -> list[str]:
        """The client's arguments that no ARG has named."""
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

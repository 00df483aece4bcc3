"""Which checks are made and what becomes of a warning: `# check=skip=...;error=true`, for a file or an instruction.

Pure. The same words come as the build argument BUILDKIT_DOCKERFILE_CHECK.
"""

from collections.abc import Iterable

from engine.daemon.dockerfile.gotext import SPACE, quoted
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.literals import boolean

EVERY = "all"
_MOST_OPTIONS = 3
_COMMENT = "check"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """skip: names of rules that are not checked; experimental: of experimental ones that are; EVERY for all of them.

    error: a warning is an error of the build
    """

    skip: frozenset[str] = frozenset()
    experimental: frozenset[str] = frozenset()
    error: bool = False

    def checks(self, name: str, experimental: bool) -> bool:
        """Whether the rule of that name is checked."""
        if experimental:
            return EVERY in self.experimental or name in self.experimental
        return EVERY not in self.skip and name not in self.skip

    def beside(self, comments: Iterable[str]) -> "CheckOptions":
        """The options for an instruction: those of the file, and those of the comments above it.

        A comment that cannot be read changes nothing.
        """
        for comment in comments:
            name, equals, text = comment.partition("=")
            if not equals or name.strip(SPACE).lower() != _COMMENT:
                continue
            try:
                own = parse(text.strip(SPACE).partition(" ")[0])
            except Invalid:
                return self
            return CheckOptions(self.skip | own.skip, self.experimental | own.experimental, self.error)
        return self


def parse(text: str) -> CheckOptions:
    """The options that a text such as `skip=A,B;error=true` means. Raises Invalid in BuildKit's words."""
    text = text.strip(SPACE)
    if not text:
        return CheckOptions()
    names: dict[str, frozenset[str]] = {}
    error = False
    for part in text.split(";", _MOST_OPTIONS - 1):
        key, equals, value = part.partition("=")
        if not equals:
            raise Invalid(f"invalid check option {quoted(part)}")
        key, value = key.strip(SPACE), value.strip(SPACE)
        if key in ("skip", "experimental"):
            names[key] = frozenset(name.strip(SPACE) for name in value.split(","))
        elif key == "error":
            try:
                error = boolean(value)
            except Invalid as fault:
                raise Invalid(f"failed to parse check option {quoted(part)}: {fault}") from fault
        else:
            raise Invalid(f"invalid check option {quoted(key)}")
    return CheckOptions(names.get("skip", frozenset()), names.get("experimental", frozenset()), error)

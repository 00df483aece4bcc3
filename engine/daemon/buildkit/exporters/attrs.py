"""The options that a client gives an exporter or a cache, read one by one; what nobody has read is refused.

Pure. BuildKit passes over options that it does not know. This engine names them, so that none is without effect.
"""

from collections.abc import Mapping

from engine.errors import Invalid, NotBuilt
from engine.literals import boolean, integer


class Attrs:
    """The options of one exporter or cache. what: names it in errors"""

    def __init__(self, what: str, given: Mapping[str, str]) -> None:
        self._what = what
        self._left = dict(given)

    def text(self, key: str, default: str = "") -> str:
        """The text of an option."""
        return self._left.pop(key, default)

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean; an option without a value is true, as in BuildKit. Raises Invalid."""
        return bool(self.choice(key, default))

    def choice(self, key: str, default: bool | None = None) -> bool | None:
        """A boolean that may be left open. Raises Invalid."""
        value = self._left.pop(key, None)
        if value is None:
            return default
        try:
            return boolean(value) if value else True
        except Invalid as error:
            raise Invalid(f"non-bool value specified for {key}: {error}") from error

    def number(self, key: str) -> int | None:
        """A whole number, None where there is none. Raises Invalid."""
        value = self._left.pop(key, "")
        if not value:
            return None
        try:
            return integer(value, reader="strconv.ParseInt")
        except Invalid as error:
            raise Invalid(f"non-integer value {value} specified for {key}") from error

    def beginning(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, with their whole names."""
        return {key: self._left.pop(key) for key in sorted(self._left) if key.startswith(prefix)}

    def end(self) -> None:
        """All was read. Raises NotBuilt for what is left."""
        for key in sorted(self._left):
            raise NotBuilt(f"the option {key} of {self._what} is not built in this engine")

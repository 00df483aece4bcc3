"""The values of a filter that are regular expressions or booleans, as dockerd reads them.

Pure. Of expressions, a text passes that is one of the values, or in which one of them is found. A value that is no
expression can still be the text itself. Go's expressions take linear time; Python's, which backtrack, would not.
"""

from collections.abc import Callable, Iterable

from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first value that is more than a plain text
    from engine.re2 import automaton
else:
    automaton = late("engine.re2.automaton")

_TRUE, _FALSE = frozenset({"1", "true"}), frozenset({"0", "false"})
_SPECIAL = frozenset("\\.+*?()|[]{}^$")


def matcher(values: Iterable[str]) -> Callable[[str], bool]:
    """Whether a text passes these values. Raises NotBuilt for expressions that are too large together."""
    given = frozenset(values)
    plain = [value for value in given if _SPECIAL.isdisjoint(value)]
    expressions = [value for value in given if not _SPECIAL.isdisjoint(value)]
    if not expressions:
        return lambda text: text in given or any(value in text for value in plain)
    found_in = automaton.Automaton(expressions, lenient=True).found_in
    return lambda text: text in given or any(value in text for value in plain) or found_in(text)


def truth(name: str, values: Iterable[str]) -> bool:
    """The boolean that is among a filter's values, beside whatever else. Raises Invalid for none, and for both."""
    wanted = not _TRUE.isdisjoint(values)
    if wanted is not _FALSE.isdisjoint(values):
        raise Invalid(f"invalid filter '{name}=[{' '.join(values)}]'")
    return wanted

"""The values of a filter that are regular expressions, as dockerd reads them.

Pure. A text passes that is one of the values, or in which one of them is found. A value that is no expression can still
be the text itself. Go's expressions take linear time; Python's, which backtrack, would not.
"""

from collections.abc import Callable, Iterable

from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded by the first value that is more than a plain text
    from engine.re2 import automaton
else:
    automaton = late("engine.re2.automaton")

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

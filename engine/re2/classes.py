"""Sets of characters of a regular expression, as Go has them: ranges, Perl's and POSIX's classes, and Unicode's.

Pure. A range is two characters of a text, so a text of an even length is any number of them.
"""

import json
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterable
from functools import cache
from itertools import accumulate

from engine import origin

Test = Callable[[str], bool]

PERL = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
POSIX = {
    "alnum": "09AZaz",
    "alpha": "AZaz",
    "ascii": "\x00\x7f",
    "blank": "\t\t  ",
    "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09",
    "graph": "!~",
    "lower": "az",
    "print": " ~",
    "punct": "!/:@[`{~",
    "space": "\t\r  ",
    "upper": "AZ",
    "word": "09AZ__az",
    "xdigit": "09AFaf",
}
_CATEGORIES = "C Cc Cf Cn Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
# Unicode's long names of them, in the order of the short ones.
_LONG = (
    "other control format unassigned privateuse surrogate letter lowercaseletter modifierletter otherletter "
    "titlecaseletter uppercaseletter mark spacingmark enclosingmark nonspacingmark number decimalnumber letternumber "
    "othernumber punctuation connectorpunctuation dashpunctuation closepunctuation finalpunctuation "
    "initialpunctuation otherpunctuation openpunctuation symbol currencysymbol modifiersymbol mathsymbol othersymbol "
    "separator lineseparator paragraphseparator spaceseparator"
)
_ALIASES = {"cntrl": "Cc", "combiningmark": "M", "digit": "Nd", "punct": "P"}
_NAMED = {
    **{name.lower(): name for name in _CATEGORIES.split()},
    **dict(zip(_LONG.split(), _CATEGORIES.split(), strict=True)),
    **_ALIASES,
}
_IGNORED = str.maketrans("", "", "_- ")
# Dotted and dotless i, which are no case of another letter in every language.
_ALONE = "\u0130\u0131"


def ranges(pairs: str) -> Test:
    """The test for characters of these ranges."""
    found = list(zip(pairs[::2], pairs[1::2], strict=True))
    return lambda char: any(low <= char <= high for low, high in found)


def unicode_class(name: str) -> tuple[Test, bool] | None:
    """The test of a class of Unicode's, and whether it is turned about; None for a name that is none."""
    if not name.isascii():
        return None
    match plain := name.translate(_IGNORED).lower():
        case "any":
            return (lambda _char: True), False
        case "ascii":
            return ranges(POSIX["ascii"]), False
        case "assigned":
            return _category("Cn"), True
        case "lc" | "casedletter":
            return (lambda char: unicodedata.category(char) in ("Lu", "Ll", "Lt")), False
    if plain in _NAMED:
        return _category(_NAMED[plain]), False
    if plain not in _scripts():
        return None
    edges = list(accumulate(int(each, 36) for each in _scripts()[plain].split()))
    return (lambda char: bisect(edges, ord(char)) % 2 == 1), False


@cache
def _scripts() -> dict[str, str]:
    """Where each script begins and ends, in turn, as distances: Python knows none.

    Only those that Go takes: it compares a name without its underscores with names that have them.
    """
    table: dict[str, str] = json.loads(origin.data("re2/scripts.json"))
    del table[""]  # the version of Unicode
    return table


def _category(prefix: str) -> Test:
    return lambda char: unicodedata.category(char).startswith(prefix)


class CharSet:
    """Characters for which any of some tests holds, or none of them. folded: in any case of their letters."""

    __slots__ = ("_answer", "_asked", "_folded", "_negated", "_tests")

    def __init__(self, tests: Iterable[tuple[Test, bool]], folded: bool = False, negated: bool = False) -> None:
        self._tests, self._folded, self._negated = tuple(tests), folded, negated
        self._asked, self._answer = "", False

    def has(self, char: str) -> bool:
        """Whether it is one of them. All copies of a set ask for one character, so the last answer is kept."""
        if char != self._asked:
            cases = _cases(char) if self._folded else char
            found = any(any(map(test, cases)) is not negated for test, negated in self._tests)
            self._asked, self._answer = char, found is not self._negated
        return self._answer


def _folded(char: str) -> str:
    """The letter that stands for all cases of this one, by Unicode's simple folding."""
    upper = char.upper() if len(char.upper()) == 1 and char not in _ALONE else char
    return upper.lower() if len(upper.lower()) == 1 else upper


@cache
def _all_cases() -> dict[str, str]:
    found: dict[str, str] = {}
    for char in map(chr, range(0x1E944)):  # no later letter has cases
        if char.lower() != char or char.upper() != char:
            found[_folded(char)] = found.get(_folded(char), "") + char
    return found


def _cases(char: str) -> str:
    if char.isascii():
        return char.lower() + char.upper() + {"k": "\u212a", "s": "\u017f"}.get(char.lower(), "")
    return _all_cases().get(_folded(char), char)

"""Go's text rules where a client sees a difference: its set of space characters, %q in errors, and "did you mean".

Pure.
"""

from collections.abc import Iterable

from engine import literals

SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006"
    "\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
"""What Go calls space; Python counts four control characters more."""

_LONGEST_SHOWN = 256
# A longer word is no name that a person has mistyped.
_LONGEST_MEANT = 64
# A word that differs in as many letters is no typing error.
_ASTRAY = 3


def quoted(text: str) -> str:
    """A text as Go's %q shows it in an error; a long text is cut."""
    return literals.quoted(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}...")


def meant(word: str, known: Iterable[str], cased: bool = True) -> str:
    """` (did you mean X?)` with the nearest of the known words, or "" where none is near.

    cased: upper and lower case differ; without it the answer is written in the case of `word`.
    """
    best = nearest(word, known, cased)
    return f" (did you mean {best}?)" if best else ""


def nearest(word: str, known: Iterable[str], cased: bool = True) -> str:
    """The one of the known words that differs least from `word`; "" where none is near, or one is the same.

    cased: as for `meant`
    """
    if len(word) > _LONGEST_MEANT:
        return ""
    asked = word if cased else word.lower()
    best, least = "", _ASTRAY
    for one in sorted(known):
        option = one if cased else one.lower()
        if option == asked:
            return ""
        if abs(len(option) - len(asked)) < least and (distance := _distance(asked, option)) < least:
            best, least = option, distance
    return best.upper() if not cased and word.isupper() else best


def _distance(one: str, other: str) -> int:
    """The Levenshtein distance of two words: how many letters must be inserted, removed or changed."""
    row = list(range(len(other) + 1))
    for number, letter in enumerate(one, start=1):
        corner, row[0] = row[0], number
        for place, wanted in enumerate(other, start=1):
            corner, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, corner + (letter != wanted))
    return row[-1]

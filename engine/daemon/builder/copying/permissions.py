"""The value of --chmod as a function on a file's mode: an octal mode, or the symbolic modes of chmod(1).

Pure.
"""

import re
import stat
from collections.abc import Callable

from engine.errors import Invalid
from engine.literals import natural

_DIGITS, _MOST = 4, 0o7777
_CLAUSE = re.compile("([ugoa]*)((?:[-+=](?:[ugo]|[rwxXst]*))+)")
_ACTION = re.compile("([-+=])([ugo]|[rwxXst]*)")
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_BITS = {"r": 4, "w": 2, "x": 1}


def parse(text: str) -> Callable[[int], int]:
    """The function that makes a file's new st_mode of its old st_mode. Raises Invalid."""
    wanted = natural(text, _MOST, octal=True) if len(text) <= _DIGITS else None
    if wanted is not None:
        return lambda mode: stat.S_IFMT(mode) | wanted
    actions: list[tuple[str, str, str]] = []
    for part in text.split(","):
        clause = _CLAUSE.fullmatch(part)
        if clause is None:
            raise Invalid(f"invalid chmod parameter: '{text}'. it should be octal string and between 0 and 07777")
        actions += [(clause[1] or "a", act[1], act[2]) for act in _ACTION.finditer(clause[2])]

    def change(mode: int) -> int:
        for who, operator, what in actions:
            mode = _applied(mode, "ugo" if "a" in who else who, operator, what)
        return mode

    return change


def _applied(mode: int, who: str, operator: str, what: str) -> int:
    whole = set(who) == {"u", "g", "o"}
    mask = wanted = 0
    for one in dict.fromkeys(who):
        mask |= 7 << _SHIFTS[one]
        wanted |= _wanted(mode, what) << _SHIFTS[one]
    # setuid belongs to the owner's class, setgid to the group's, and the sticky bit to all three classes together.
    for bit, letter, owner in ((stat.S_ISUID, "s", "u"), (stat.S_ISGID, "s", "g"), (stat.S_ISVTX, "t", "")):
        if owner in who if owner else whole:
            mask |= bit
            wanted |= bit if letter in what and what not in _SHIFTS else 0
    if operator == "+":
        return mode | wanted
    if operator == "-":
        return mode & ~wanted
    # As in chmod(1), `=` keeps a directory's setuid and setgid bits.
    kept = mode & (stat.S_ISUID | stat.S_ISGID) if stat.S_ISDIR(mode) else 0
    return mode & ~mask | wanted | kept


def _wanted(mode: int, what: str) -> int:
    """The three permission bits that the letters ask for, for a file with this mode."""
    if what in _SHIFTS:
        return mode >> _SHIFTS[what] & 7
    bits = sum(_BITS[letter] for letter in set(what) if letter in _BITS)
    # X sets the execute bit of directories, and of files that anybody may execute already.
    if "X" in what and (stat.S_ISDIR(mode) or mode & 0o111):
        bits |= 1
    return bits

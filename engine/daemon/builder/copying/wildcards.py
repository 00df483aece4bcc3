"""The wildcard patterns of COPY and ADD sources: those of Go's filepath.Match, and `**` for COPY --parents.

Pure. Neither the pattern nor the names are trusted, and a regular expression holds the interpreter while it runs. So
each expression that is made here is for one part of a path, and never backtracks further than to its last `*`.
"""

import re

from engine.errors import Invalid

_SPECIAL = "*?["
_LONGEST = 16 * 1024

State = frozenset[int]


def is_pattern(text: str) -> bool:
    """Whether the text has a wildcard that no backslash escapes."""
    place = 0
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] in _SPECIAL:
            return True
        place += 1
    return False


class Pattern:
    """The pattern of a path, matched name by name: `start`, then `step` for each name, and `accepts` at the end.

    deep: a part `**` stands for any number of directories. A malformed pattern matches nothing, as in docker, nor does
    one that is longer than any path is.
    """

    def __init__(self, text: str, deep: bool = False):
        try:
            if len(text) > _LONGEST:  # a megabyte of them takes half a gigabyte, and minutes
                raise Invalid("a pattern that is longer than any path is")
            # None is the part `**`.
            parts = [None if deep and part == "**" else _part(part) for part in text.split("/")]
            # Two `**` in a row mean the same as one, and each would be one more state to follow.
            self._parts = [part for part, last in zip(parts, (*parts[1:], ""), strict=True) if part or last is not None]
        except Invalid:
            self._parts = [re.compile("(?!)")]
        self.start = self._skipped({0})

    def step(self, state: State, name: str) -> State:
        """The state after one more name; empty: no path that begins with these names can match."""
        further = set()
        for place in state:
            if place == len(self._parts):
                continue
            part = self._parts[place]
            if part is None:
                further.add(place)
            elif part.fullmatch(name):
                further.add(place + 1)
        return self._skipped(further)

    def accepts(self, state: State) -> bool:
        """Whether the names so far are a match."""
        return len(self._parts) in state

    def matches(self, path: str) -> bool:
        """Whether the whole path matches."""
        state = self.start
        for name in path.split("/"):
            state = self.step(state, name)
        return self.accepts(state)

    def _skipped(self, state: set[int]) -> State:
        """The state with those added that are reached when a `**` stands for no directory."""
        for place in sorted(state):
            while place < len(self._parts) and self._parts[place] is None:
                place += 1
                state.add(place)
        return frozenset(state)


def _part(pattern: str) -> re.Pattern[str]:
    """The expression of one part of a path.

    Between two `*` the first place that fits is as good as any later one, so the expression never leaves it (atomic).
    """
    pieces = [""]
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        place += 1
        if letter == "*":
            pieces.append("")
        elif letter == "?":
            pieces[-1] += "."
        elif letter == "[":
            piece, place = _class(pattern, place)
            pieces[-1] += piece
        else:
            if letter == "\\":
                letter = pattern[place : place + 1]
                place += 1
                if not letter:
                    raise Invalid("syntax error in pattern")
            pieces[-1] += re.escape(letter)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    between = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return re.compile(f"{pieces[0]}{between}.*{pieces[-1]}", re.DOTALL)


def _class(pattern: str, place: int) -> tuple[str, int]:
    """The expression of `[...]`, whose bracket was passed already, and the place after it."""
    negated = pattern[place : place + 1] == "^"
    place += negated
    ranges = ""
    count = 0
    while not (count and pattern[place : place + 1] == "]"):
        low, place = _bound(pattern, place)
        high = low
        if pattern[place : place + 1] == "-":
            high, place = _bound(pattern, place + 1)
        # A range from a higher to a lower character holds nothing, as in Go.
        ranges += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        count += 1
    if not ranges:
        return "." if negated else "(?!)", place + 1
    return f"[{'^' * negated}{ranges}]", place + 1


def _bound(pattern: str, place: int) -> tuple[str, int]:
    letter = pattern[place : place + 1]
    if letter in ("", "-", "]"):
        raise Invalid("syntax error in pattern")
    if letter == "\\":
        place += 1
        letter = pattern[place : place + 1]
        if not letter:
            raise Invalid("syntax error in pattern")
    return letter, place + 1

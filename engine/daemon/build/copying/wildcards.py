"""The patterns of COPY and ADD: Go's filepath.Match, and `**` for COPY --parents.

Pure. A pattern and a name are a stranger's both, and a regular expression holds the interpreter while it runs: each one
made here is for one part of a path and never goes back further than to its last `*`.
"""

import re

from engine.errors import Invalid

_SPECIAL = "*?["

State = frozenset[int]


def is_pattern(text: str) -> bool:
    """Whether the text has a wildcard that no backslash takes away."""
    place = 0
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] in _SPECIAL:
            return True
        place += 1
    return False


class Pattern:
    """A path's pattern, followed name by name: `start`, then `step` for each name, and `accepts` at the end.

    deep: a part `**` stands for any number of directories. A malformed pattern matches nothing, as for docker.
    """

    def __init__(self, text: str, deep: bool = False):
        try:
            # None is the part `**`.
            parts = [None if deep and part == "**" else _part(part) for part in text.split("/")]
            # Any number of directories, twice, is any number of them; each would be a way more to follow.
            self._parts = [part for part, last in zip(parts, (*parts[1:], ""), strict=True) if part or last is not None]
        except Invalid:
            self._parts = [re.compile("(?!)")]
        self.start = self._skipped({0})

    def step(self, state: State, name: str) -> State:
        """Where one more name leads; empty: nothing that begins so can match."""
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
        """With what is reached when a `**` stands for nothing."""
        for place in sorted(state):
            while place < len(self._parts) and self._parts[place] is None:
                place += 1
                state.add(place)
        return frozenset(state)


def _part(pattern: str) -> re.Pattern[str]:
    """One part of a path. Between two `*` the first place that fits is as good as any other, so it is never left."""
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
    """`[...]`, its bracket passed already, and the place after it."""
    negated = pattern[place : place + 1] == "^"
    place += negated
    ranges = ""
    count = 0
    while not (count and pattern[place : place + 1] == "]"):
        low, place = _bound(pattern, place)
        high = low
        if pattern[place : place + 1] == "-":
            high, place = _bound(pattern, place + 1)
        # A range the wrong way round holds nothing; Go takes it so.
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

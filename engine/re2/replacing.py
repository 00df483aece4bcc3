"""Replaces what a regular expression finds in a text by a template, as Go's package regexp does.

Pure. Each character costs at most one visit of each instruction for each match that is looked for, and the visits of
one expression are bounded in all, so a pattern that is slow on purpose ends in words.
"""

from collections.abc import Sequence

from engine.errors import Invalid
from engine.re2 import template
from engine.re2.classes import CharSet
from engine.re2.program import END
from engine.re2.syntax import capturing

_MOST_VISITS = 2_000_000  # about two seconds
_Remembered = tuple[int, int, "_Remembered"] | None
"""The number of a place, where in the text it was met last, and what was remembered before that."""


class Replacing:
    """One expression. Raises Invalid in Go's words, NotBuilt for what is too large."""

    def __init__(self, pattern: str) -> None:
        self._program, self._names = capturing(pattern)
        self._left = _MOST_VISITS

    def replaced(self, text: str, pattern: str, most: int) -> str:
        """The text with each match replaced by the template `pattern`. Raises Invalid for more than `most` characters,
        and for what takes too long.
        """
        made: list[str] = []
        size = last = at = 0
        while at <= len(text) and (places := self._search(text, at)) is not None:
            begin, end = places[0], places[1]
            piece = text[last:begin]
            if end > last or begin == 0:
                piece += template.expanded(pattern, self._groups(text, places), most)
            made.append(piece)
            size += len(piece)
            if size > most:
                raise Invalid(f"a text that an expression makes has more than {most} characters")
            last = end
            at = max(at + 1, end)
        return "".join(made) + text[last:]

    def _groups(self, text: str, places: Sequence[int]) -> dict[str, str]:
        """The texts of the groups by their numbers and names, those alone that have one."""
        found: dict[str, str] = {}
        for number, name in enumerate(self._names):
            begin, end = places[2 * number], places[2 * number + 1]
            if begin < 0 or end < 0:
                continue
            found[str(number)] = text[begin:end]
            if name:
                found.setdefault(name, text[begin:end])
        return found

    def _search(self, text: str, at: int) -> list[int] | None:
        """Where the first match from there on and its groups begin and end, -1 for a group without a part in it."""
        waiting: list[tuple[int, _Remembered]] = []
        found: tuple[int, _Remembered] | None = None
        for place in range(at, len(text) + 1):
            before, after = text[place - 1 : place] or END, text[place : place + 1] or END
            if found is None:
                waiting.append((0, (0, place, None)))
            following: list[tuple[int, _Remembered]] = []
            for instruction, remembered in self._ready(waiting, place, before, after):
                if instruction == len(self._program):
                    found = place, remembered
                    break
                wanted = self._program[instruction]
                if wanted.has(after) if isinstance(wanted, CharSet) and after != END else wanted == after:
                    following.append((instruction + 1, remembered))
            if not following and found is not None:
                break
            waiting = following
        return None if found is None else self._places(*found)

    def _ready(
        self, waiting: list[tuple[int, _Remembered]], place: int, before: str, after: str
    ) -> list[tuple[int, _Remembered]]:
        """The instructions that the next character is for, the better ones first, and the end. Raises Invalid."""
        seen: set[int] = set()
        found: list[tuple[int, _Remembered]] = []
        stack = waiting[::-1]
        while stack:
            at, remembered = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            instruction = self._program[at] if at < len(self._program) else END
            if isinstance(instruction, tuple):
                stack += [(at + each, remembered) for each in reversed(instruction)]
            elif isinstance(instruction, int):
                stack.append((at + 1, (instruction, place, remembered)))
            elif isinstance(instruction, str | CharSet):
                found.append((at, remembered))
            elif instruction(before, after):
                stack.append((at + 1, remembered))
        self._left -= len(seen)
        if self._left < 0:
            raise Invalid("a regular expression takes too long")
        return found

    def _places(self, end: int, remembered: _Remembered) -> list[int]:
        places = [-1] * (2 * len(self._names))
        places[1] = end
        while remembered is not None:
            number, place, remembered = remembered
            if places[number] < 0:
                places[number] = place
        return places

"""Looks for regular expressions in texts, all of them at once: an automaton that is made while it runs.

Pure; used by one thread. Each character costs at most one visit of each instruction. What a character leads to is kept
for the next time, up to a bound.
"""

from collections.abc import Iterable
from itertools import chain

from engine.errors import Invalid
from engine.re2.classes import CharSet
from engine.re2.program import END, Instruction, alternated, in_word
from engine.re2.syntax import MOST, compiled

# Instructions in all sets that are kept, and characters that lead from one to another; some megabytes.
_MOST_KEPT = 50_000


class _State:
    """Where the program goes on after a text. before: the kind of the last character, as far as anything asks for it"""

    __slots__ = ("before", "next", "places")

    def __init__(self, places: frozenset[int], before: str) -> None:
        self.places, self.before = places, before
        self.next: dict[str, _State] = {}


_FOUND = _State(frozenset(), END)


class Automaton:
    """What looks for any of some patterns. Raises Invalid in Go's words, NotBuilt for what is too large together.

    lenient: a pattern that is none is never found
    """

    def __init__(self, patterns: Iterable[str], lenient: bool = False) -> None:
        programs: list[list[Instruction]] = []
        room = MOST
        for pattern in patterns:
            try:
                programs.append(compiled(pattern, room))
            except Invalid:
                if not lenient:
                    raise
            else:
                room -= len(programs[-1]) + 2
        self._program = alternated(programs)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._kept = 0

    def found_in(self, text: str) -> bool:
        """Whether any of them is found in the text."""
        state = self._state(frozenset(), END)
        for char in chain(text, (END,)):
            state = state.next.get(char) or self._step(state, char)
            if state is _FOUND:
                return True
        return False

    def _state(self, places: frozenset[int], before: str) -> _State:
        found = self._states.get((places, before))
        if found is None:
            found = self._states[places, before] = _State(places, before)
            self._kept += len(places)
        return found

    def _step(self, state: _State, char: str) -> _State:
        """Where a character leads to; `_FOUND` where a pattern ends before it."""
        if self._kept > _MOST_KEPT:
            self._states, self._kept = {}, 0
            state.next.clear()
        following = self._following(state, char)
        if following is None:
            result = _FOUND
        else:
            before = "\n" if char == "\n" else "a" if in_word(char) else " "
            result = self._state(frozenset(following), before)
        state.next[char] = result
        self._kept += 1
        return result

    def _following(self, state: _State, char: str) -> set[int] | None:
        program, end = self._program, len(self._program)
        waiting = [0, *state.places]  # a pattern may begin at each character
        seen = set(waiting)
        following = set()
        while waiting:
            place = waiting.pop()
            if place == end:
                return None
            instruction = program[place]
            to: tuple[int, ...] = ()
            if isinstance(instruction, tuple):
                to = instruction
            elif isinstance(instruction, str):
                if instruction == char:
                    following.add(place + 1)
            elif isinstance(instruction, CharSet):
                if char != END and instruction.has(char):
                    following.add(place + 1)
            elif not isinstance(instruction, int) and instruction(state.before, char):
                to = (1,)
            for each in to:
                if place + each not in seen:
                    seen.add(place + each)
                    waiting.append(place + each)
        return following

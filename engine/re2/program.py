"""The program of an automaton: a list of instructions, and how longer ones are made of shorter ones.

Pure. Jumps are relative, so a part of a program can be repeated as it is. A program that is run through has found its
pattern.
"""

from collections.abc import Callable

from engine.dataclass import dataclass
from engine.re2.classes import PERL, CharSet, ranges

END = ""
"""What stands before the first character of a text, and after its last one."""
Assertion = Callable[[str, str], bool]
"""What has to hold between two characters."""
Instruction = str | CharSet | tuple[int, ...] | int | Assertion
"""A character that has to come, or one of a set; where to go on, the better way first; the number of a place in the
text that is remembered; or what has to hold before what follows."""

_in_word = ranges(PERL["w"])


def in_word(char: str) -> bool:
    """Whether it is a letter, a digit or `_` of ASCII."""
    return char != END and _in_word(char)


ASSERTIONS: dict[str, Assertion] = {
    "A": lambda before, _after: before == END,
    "z": lambda _before, after: after == END,
    "b": lambda before, after: in_word(before) is not in_word(after),
    "B": lambda before, after: in_word(before) is in_word(after),
}
# The two signs, with the flag for lines.
OF_LINES: dict[str, Assertion] = {
    "^": lambda before, _after: before in (END, "\n"),
    "$": lambda _before, after: after in (END, "\n"),
}


@dataclass(slots=True)
class Part:
    """Something that can be repeated. repeats: how often its innermost part is; height: of its tree, as Go has it"""

    code: list[Instruction]
    repeats: int = 1
    height: int = 1


class Group:
    """What has been read since a parenthesis, or the beginning. flags: those before it; number: 0 for one without"""

    def __init__(self, flags: int, number: int = 0) -> None:
        self.flags, self.number = flags, number
        self.parts: list[Part] = []
        self.alternatives: list[Part] = []

    def end_alternative(self) -> None:
        """What follows is another way."""
        code = [instruction for part in self.parts for instruction in part.code]
        self.alternatives.append(joined(self.parts, code))
        self.parts = []

    def whole(self) -> Part:
        """All of it as one."""
        self.end_alternative()
        part = joined(self.alternatives, alternated([each.code for each in self.alternatives]))
        part.height += self.number > 0
        return part


def joined(parts: list[Part], code: list[Instruction]) -> Part:
    """The part that these make, whose code is given."""
    highest = max((each.height for each in parts), default=1)
    return Part(code, max((each.repeats for each in parts), default=1), highest + (len(parts) > 1))


def alternated(programs: list[list[Instruction]]) -> list[Instruction]:
    """The program that finds what any of these finds."""
    if len(programs) == 1:
        return programs[0]
    # One jump to all of them, and one at the end of each.
    starts, at = [], 1
    for program in programs:
        starts.append(at)
        at += len(program) + 1
    code: list[Instruction] = [tuple(starts)]
    for program in programs:
        code += program
        code.append((at - len(code),))
    return code


def repeated(code: list[Instruction], least: int, most: int, fewer: bool = False) -> list[Instruction]:
    """The program that finds what this one finds so often, -1 for without bound. fewer: it rather takes less"""
    length = len(code)

    def ways(more: int, on: int) -> tuple[int, int]:
        return (on, more) if fewer else (more, on)

    if most < 0 and least:
        return [*code * least, ways(-length, 1)]
    if most < 0:
        return [ways(1, length + 2), *code, ways(-length, 1)]
    optional = most - least
    found = code * least
    for left in range(optional, 0, -1):
        found.append(ways(1, left * (length + 1)))
        found += code
    return found

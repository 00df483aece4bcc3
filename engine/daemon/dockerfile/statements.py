"""The values that the parser makes of a Dockerfile: the file, an instruction, a heredoc, before their meaning is read.

Pure values. `parser` makes them, `instructions` reads them as commands.
"""

import re

from engine.dataclass import dataclass, field, replace
from engine.errors import Invalid


class Misplaced(Invalid):
    """A fault of a Dockerfile, with the lines where it is.

    reason: the fault without the name of the file; first, last: numbers of lines, from 1
    """

    def __init__(self, text: str, reason: str, first: int, last: int) -> None:
        super().__init__(text)
        self.reason, self.first, self.last = reason, first, last


_LEADING_TABS = re.compile(r"^\t+", re.MULTILINE)


@dataclass(frozen=True)
class Heredoc:
    """The lines under an instruction up to a line that is `name`.

    expand: the name had no quotes, so variables in the data are expanded
    chomp: it was written with `<<-`, so leading tabs are to be removed; `data` still has them
    """

    name: str
    data: str
    expand: bool = True
    chomp: bool = False

    def chomped(self) -> "Heredoc":
        """The heredoc with the leading tabs removed, if it was written with `<<-`."""
        return replace(self, data=_LEADING_TABS.sub("", self.data), chomp=False) if self.chomp else self


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    keyword: in upper case; written: the keyword as it stands in the file
    line, last_line: its first and last line in the file, from 1, heredocs included
    flags: (name without dashes, value or None for one without "=")
    text: all after keyword and flags, continuation lines joined
    original: the whole instruction in one line, as a build shows its step
    arguments: `text` split by the form of its keyword, quotes and variables untouched; exec_form: it is a JSON list
    spaced: a pair of ENV or LABEL in the old form, `name value`; gap: the last of its lines where it continues over an
    empty one, else 0; comments: those above it without their `#`, since the instruction before it or an empty comment
    """

    keyword: str
    line: int
    last_line: int
    flags: tuple[tuple[str, str | None], ...]
    text: str
    original: str
    heredocs: tuple[Heredoc, ...] = ()
    arguments: tuple[str, ...] = ()
    exec_form: bool = False
    written: str = ""
    spaced: bool = False
    gap: int = 0
    comments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dockerfile:
    """All instructions, in order.

    escape: the escape character; directives: the parser directives given; warnings: what should be corrected
    """

    instructions: tuple[Instruction, ...]
    escape: str = "\\"
    directives: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

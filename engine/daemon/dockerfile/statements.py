"""What a Dockerfile is made of, before anyone asks what it means.

Pure values. `parser` makes them, `instructions` reads them.
"""

import re
from dataclasses import dataclass, field, replace

_LEADING_TABS = re.compile(r"^\t+", re.MULTILINE)


@dataclass(frozen=True)
class Heredoc:
    """The lines under an instruction up to one that is `name`.

    expand: the name had no quotes; chomp: it came after `<<-`, so leading tabs are not meant; `data` still has them.
    """

    name: str
    data: str
    expand: bool = True
    chomp: bool = False

    def chomped(self) -> "Heredoc":
        """With the data as it is meant."""
        return replace(self, data=_LEADING_TABS.sub("", self.data), chomp=False) if self.chomp else self


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    keyword: in upper case; written: as it stands there.
    line, last_line: counted from 1, with its heredocs.
    flags: (name without dashes, value or None for one without "=").
    text: all after keyword and flags, the continuation lines joined.
    original: the whole of it in one line, as a build's step shows it.
    arguments: `text` taken apart as its keyword wants it, quotes and variables untouched; exec_form: it is a JSON list.
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


@dataclass(frozen=True)
class Dockerfile:
    """All instructions, in order.

    escape: the escape character in force; directives: the parser directives given; warnings: what should be mended
    """

    instructions: tuple[Instruction, ...]
    escape: str = "\\"
    directives: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

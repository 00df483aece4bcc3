"""Splits a Dockerfile's bytes into logical lines: joins continued lines, drops comments, reads the parser directives.

Pure. It goes through the text once. The caller takes the heredocs that a line announces out of the same lines, before
it asks for the next one.
"""

import io
import re
from collections.abc import Iterator

from engine.daemon.dockerfile.gotext import SPACE
from engine.daemon.dockerfile.statements import Heredoc
from engine.dataclass import dataclass, field
from engine.errors import Invalid

LARGEST = 2**20
LONGEST_LINE = 65535
"""Bytes of one line as it stands in the file; dockerd's limit too."""

_DIRECTIVE = re.compile(rf"#[{SPACE}]*(?a:([a-zA-Z][a-zA-Z0-9]*))[{SPACE}]*=[{SPACE}]*(.+)")
# Of the comments above one instruction only the last ones are kept; no description is as long.
_MOST_COMMENTS = 100
_KNOWN_DIRECTIVES = ("syntax", "escape", "check")
_ESCAPES = ("\\", "`")
# The escape character at a line's end, unless another escape character stands before it.
_CONTINUED = {
    "\\": re.compile(r"(?<!\\)\\[ \t]*\Z"),
    "`": re.compile(r"(?<!`)`[ \t]*\Z"),
}


@dataclass(frozen=True)
class Line:
    """One logical line.

    first, last: numbers of its lines in the file, from 1; gaps: it continues over empty lines
    comments: those above it, since the line before it or an empty comment
    """

    text: str
    first: int
    last: int
    gaps: bool = False
    comments: tuple[str, ...] = ()


@dataclass
class Reader:
    """Yields the logical lines of a Dockerfile, and on demand the heredocs that follow one. Raises Invalid."""

    data: bytes
    escape: str = "\\"
    directives: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.data) > LARGEST:
            raise Invalid(f"a Dockerfile of {len(self.data)} bytes is too large: {LARGEST} are allowed")
        self._lines = self._split()
        self._number = self._begun = 0
        self._directives_over = False

    def _split(self) -> Iterator[str]:
        """The lines with their ends; only "\n" ends a line."""
        for line in io.BytesIO(self.data.removeprefix(b"\xef\xbb\xbf")):
            if len(line) > LONGEST_LINE and len(line.removesuffix(b"\n")) > LONGEST_LINE:
                raise Invalid(f"dockerfile line greater than max allowed size of {LONGEST_LINE}")
            if b"\0" in line:
                raise Invalid(f"line {self._number + 1} has a NUL byte, which is not allowed")
            yield line.decode("utf-8", "replace")

    def _next(self) -> str | None:
        line = next(self._lines, None)
        self._number += line is not None
        return line

    def lines(self) -> Iterator[Line]:
        """Each logical line. Between two of them the caller may take the heredocs of the first."""
        comments: list[str] = []
        while (read := self._next()) is not None:
            first = self._begun = self._number
            text = read.rstrip("\r\n").lstrip(SPACE)
            directive = self._directive(text)
            if not text or text.startswith("#"):
                if text and not directive:
                    comments = _with(comments, text[1:].strip(SPACE))
                continue
            text, continued = self._cut(text)
            parts, gaps = [text], False
            while continued and (read := self._next()) is not None:
                text = read.rstrip("\r\n")
                bare = text.lstrip(SPACE)
                gaps = gaps or not bare
                if bare and not bare.startswith("#"):
                    text, continued = self._cut(text)
                    parts.append(text)
            yield Line("".join(parts), first, self._number, gaps, tuple(comments))
            comments = []

    def _cut(self, text: str) -> tuple[str, bool]:
        """The line without the escape at its end, and whether it had one, so that it continues."""
        found = _CONTINUED[self.escape].search(text)
        return (text[: found.start()], True) if found else (text, False)

    def _directive(self, text: str) -> bool:
        """Take up a parser directive; whether the line is one. Raises Invalid."""
        if self._directives_over:
            return False
        match = _DIRECTIVE.fullmatch(text.rstrip(SPACE))
        if match is None or match[1].lower() not in _KNOWN_DIRECTIVES:
            self._directives_over = True
            return False
        name = match[1].lower()
        if name in self.directives:
            raise Invalid(f"only one {name} parser directive can be used")
        self.directives[name] = match[2]
        if name == "escape":
            if match[2] not in _ESCAPES:
                raise Invalid(f"invalid escape token '{match[2]}' does not match ` or \\")
            self.escape = match[2]
        return True

    def heredoc(self, announced: Heredoc) -> Heredoc:
        """The announced heredoc with its data, up to the line that ends it. Raises Invalid where no line does."""
        parts: list[str] = []
        while (read := self._next()) is not None:
            end = read.rstrip("\r\n")
            if (end.lstrip("\t") if announced.chomp else end) == announced.name:
                return Heredoc(announced.name, "".join(parts), announced.expand, announced.chomp)
            parts.append(read)
        raise Invalid("unterminated heredoc")

    @property
    def begun(self) -> int:
        """The first line of the logical line that is being read, or was read last; 0 before the first."""
        return self._begun

    @property
    def number(self) -> int:
        """How many lines of the file have been read."""
        return self._number


def _with(comments: list[str], comment: str) -> list[str]:
    """The comments with one more, which removes those above it where it is empty."""
    return [*comments[1 - _MOST_COMMENTS :], comment] if comment else []

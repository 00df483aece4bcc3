"""The names of heredocs in an instruction's line.

Pure.
"""

import re

from engine.daemon.dockerfile.statements import Heredoc
from engine.daemon.dockerfile.words import Lexer, split
from engine.errors import Invalid

_HEREDOC = re.compile(r"(?a:\d*)<<(-?)[\t\n\f\r ]*([^<]*)")
_QUOTES = "'\""


def announced(line: str) -> list[Heredoc]:
    """The heredocs that a line says follow it, in order, still without data."""
    try:
        words = split(Lexer(line, {}, keep_quotes=True, keep_escapes=True, keep_unset=True).pieces())
    except Invalid:
        # A quote without an end: for the shell to complain about.
        return []
    return [found for word in words if (found := read(word)) is not None]


def read(word: str) -> Heredoc | None:
    """`<<NAME`, `<<-NAME`, `3<<"NAME"`; None when the word is nothing like it."""
    match = _HEREDOC.fullmatch(word)
    if match is None or not match[2]:
        return None
    try:
        names = split(Lexer(match[2], {}, keep_unset=True).pieces())
        quoted = split(Lexer(match[2], {}, keep_quotes=True, keep_unset=True).pieces())
    except Invalid:
        return None
    if len(names) != 1 or len(quoted) != 1:
        return None
    # A name of which some part is quoted says that the data is to stay as it is.
    return Heredoc(names[0], "", expand=_quotes(quoted[0]) == _quotes(names[0]), chomp=match[1] == "-")


def _quotes(text: str) -> int:
    return sum(text.count(quote) for quote in _QUOTES)

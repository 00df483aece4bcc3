"""Finds the heredocs (`<<NAME`) that an instruction's line announces, and parses their names.

Pure.
"""

import re

from engine.daemon.dockerfile.statements import Heredoc
from engine.daemon.dockerfile.words import Lexer, split
from engine.errors import Invalid

_HEREDOC = re.compile(r"(?a:\d*)<<(-?)[\t\n\f\r ]*([^<]*)")
_QUOTES = "'\""


def announced(line: str) -> list[Heredoc]:
    """The heredocs that a line says will follow it, in order, still without data."""
    try:
        words = split(Lexer(line, {}, keep_quotes=True, keep_escapes=True, keep_unset=True).pieces())
    except Invalid:
        # An unclosed quote is an error for the shell to report.
        return []
    return [found for word in words if (found := read(word)) is not None]


def read(word: str) -> Heredoc | None:
    """The heredoc of a word like `<<NAME`, `<<-NAME` or `3<<"NAME"`; None for any other word."""
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
    # Where some part of the name is quoted, no variable in the data is expanded.
    return Heredoc(names[0], "", expand=_quotes(quoted[0]) == _quotes(names[0]), chomp=match[1] == "-")


def _quotes(text: str) -> int:
    return sum(text.count(quote) for quote in _QUOTES)

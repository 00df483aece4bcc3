"""Expands variables and removes quotes in an instruction's words, by the rules of docker's shell-like lexer.

Pure. Each function goes through its text once. The depth of nested substitutions and the length of a result are
bounded.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from engine.daemon.dockerfile import globs
from engine.daemon.dockerfile.gotext import SPACE, quoted
from engine.dataclass import dataclass
from engine.errors import Invalid

DEEPEST = 50
LONGEST = 2**21
"""What a text may grow by: no argument and no variable of a process can be longer, by far."""

MOST_IN_ALL = 2**24
"""Characters of all values that are put into the texts of one file: each of its lines could take a long one again."""

_SPECIAL = "@*#?-$!"
_SPACES = re.compile(f"[{SPACE}]+")
_WORD_SPACE = "\t\r "


def expand(text: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """The text with its variables expanded, and its quotes and escapes removed. Raises Invalid."""
    return "".join(piece for piece, _ in Lexer(text, variables, escape).pieces())


def expand_raw(text: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """The text with its variables expanded; quotes have no meaning and stay. For a heredoc's contents.

    Raises Invalid.
    """
    return "".join(piece for piece, _ in Lexer(text, variables, escape, quotes=False).pieces())


def expand_list(text: str, variables: Mapping[str, str], escape: str = "\\") -> list[str]:
    """The words of the text: it is divided after expansion, at space that is neither quoted nor escaped.

    Raises Invalid.
    """
    return split(Lexer(text, variables, escape).pieces())


def split(pieces: Iterator[tuple[str, bool]]) -> list[str]:
    """The words that pieces of text make. Only pieces marked True are divided at space; no word is empty."""
    words: list[str] = []
    word: list[str] = []
    for text, divides in pieces:
        first, *others = _SPACES.split(text) if divides else (text,)
        word.append(first)
        for other in others:
            words.append("".join(word))
            word = [other]
    words.append("".join(word))
    return [word for word in words if word]


class Growth:
    """What the texts of one file may yet grow by."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_IN_ALL

    def take(self, count: int) -> None:
        """So many characters were put in. Raises Invalid."""
        self._left -= count
        if self._left < 0:
            raise Invalid("the values of the variables are too long in all")


class Counted(Mapping[str, str]):
    """Variables whose values count as growth when they are looked up."""

    __slots__ = ("_growth", "_values")

    def __init__(self, values: Mapping[str, str], growth: Growth) -> None:
        self._values, self._growth = values, growth

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """The value, which is counted. Raises Invalid."""
        value = self._values.get(name)
        if value is None:
            return default
        self._growth.take(len(value))
        return value

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@cache
def _plain(stop: str, quotes: bool, escape: str) -> re.Pattern[str]:
    """The expression of text without special characters, up to the character `stop`."""
    marks = "'\"" if quotes else ""
    return re.compile(f"[^$<{marks}{re.escape(escape + stop)}]+")


class _Unfinished(Exception):
    """The text ended inside a quote or a substitution."""


@dataclass
class Lexer:
    """One pass over one text.

    quotes: whether quotes have a meaning; keep_quotes, keep_escapes: they stay in the result
    keep_unset: a variable that is not set stays as written
    """

    text: str
    variables: Mapping[str, str]
    escape: str = "\\"
    quotes: bool = True
    keep_quotes: bool = False
    keep_escapes: bool = False
    keep_unset: bool = False

    def __post_init__(self) -> None:
        self._place = 0
        self._depth = 0
        self._room = len(self.text) + LONGEST

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The expanded text in pieces, each with whether space in it divides words.

        Raises Invalid for malformed text.
        """
        try:
            yield from self._until("", self.keep_escapes)
        except _Unfinished as error:
            raise Invalid(f"failed to process {quoted(self.text)}: {error}") from None
        except Invalid as error:
            raise Invalid(f"failed to process {quoted(self.text)}: {error}") from None

    def _peek(self) -> str:
        return self.text[self._place : self._place + 1]

    def _next(self) -> str:
        character = self.text[self._place : self._place + 1]
        self._place += 1
        return character

    def _until(self, stop: str, keep_escapes: bool) -> Iterator[tuple[str, bool]]:
        plain = _plain(stop, self.quotes, self.escape)
        while character := self._peek():
            if character == stop:
                self._place += 1
                return
            if found := plain.match(self.text, self._place):
                self._place = found.end()
                yield found[0], True
            elif character == "$":
                yield self._dollar(), True
            elif character == "<":
                yield self._redirection(), False
            elif self.quotes and character == "'":
                yield self._single(), False
            elif self.quotes and character == '"':
                yield self._double(keep_escapes), False
            else:
                self._place += 1
                escaped = self._next()
                kept = character if keep_escapes else ""
                if kept or escaped:
                    yield kept + escaped, False
        if stop:
            raise _Unfinished(f"unexpected end of statement while looking for matching {stop}")

    def _single(self) -> str:
        end = self.text.find("'", self._place + 1)
        if end < 0:
            raise _Unfinished("unexpected end of statement while looking for matching single-quote")
        inside = self.text[self._place + 1 : end]
        self._place = end + 1
        return f"'{inside}'" if self.keep_quotes else inside

    def _double(self, keep_escapes: bool) -> str:
        mark = '"' if self.keep_quotes else ""
        self._place += 1
        parts = [mark]
        while character := self._peek():
            if character == '"':
                self._place += 1
                return "".join([*parts, mark])
            if character == "$":
                parts.append(self._dollar())
            elif character == self.escape:
                parts.append(self._escaped_in_quotes(keep_escapes))
            else:
                plain = _QUOTED[self.escape].match(self.text, self._place)
                assert plain is not None  # the character is none of those that end plain text
                self._place = plain.end()
                parts.append(plain[0])
        raise _Unfinished("unexpected end of statement while looking for matching double-quote")

    def _escaped_in_quotes(self, keep_escapes: bool) -> str:
        """An escape within double quotes: it escapes only a quote, a dollar sign and the escape character itself."""
        self._place += 1
        kept = self.escape if keep_escapes else ""
        if not self._peek():
            return kept
        return kept + (self._next() if self._peek() in ('"', "$", self.escape) else self.escape)

    def _redirection(self) -> str:
        """`<<` and the space after it, as a piece that does not divide words.

        A heredoc's name is part of the same word.
        """
        begin = self._place
        self._place += 1
        if self._peek() == "<":
            self._place += 1
            while self._peek() and self._peek() in _WORD_SPACE:
                self._place += 1
        return self.text[begin : self._place]

    def _dollar(self) -> str:
        begin = self._place
        self._place += 1
        if self._peek() != "{":
            name = self._name()
            if not name:
                return "$"
            value = self.variables.get(name)
            if value is None:
                return self.text[begin : self._place] if self.keep_unset else ""
            return self._grown(value)
        self._place += 1
        self._depth += 1
        if self._depth > DEEPEST:
            raise Invalid("substitutions are nested too deeply")
        value = self._substitution(begin)
        self._depth -= 1
        return value

    def _grown(self, value: str) -> str:
        self._room -= len(value)
        if self._room < 0:
            raise Invalid("the result is too long")
        return value

    def _name(self) -> str:
        found = _NAME.match(self.text, self._place)
        if found is None:
            return ""
        self._place = found.end()
        return found[0]

    def _substitution(self, begin: int) -> str:
        """The value of a substitution whose `${` has been read."""
        if not self._peek():
            raise _Unfinished("syntax error: missing '}'")
        if self._peek() in "{}:":
            raise Invalid("syntax error: bad substitution")
        name = self._name()
        modifier = self._next()
        if not modifier:
            raise _Unfinished("syntax error: missing '}'")
        value = self.variables.get(name)
        if modifier == "}":
            kept = value is None and self.keep_unset
            return self.text[begin : self._place] if kept else self._grown(value or "")
        if modifier == "/":
            return self._replaced(begin, value)
        colon = modifier == ":"
        if colon:
            modifier = self._next()
        if modifier not in _MODIFIERS or (colon and modifier in _TRIMMED):
            if colon and modifier not in _TRIMMED:
                self._operand("}", False, "syntax error: missing '}'")
            raise Invalid(f"unsupported modifier ({':' if colon else ''}{modifier}) in substitution")
        word = self._operand("}", modifier in _TRIMMED, "syntax error: missing '}'")
        if value is None and self.keep_unset:
            return self.text[begin : self._place]
        return self._grown(_MODIFIERS[modifier](name, value, word, colon))

    def _operand(self, stop: str, keep_escapes: bool, missing: str) -> str:
        try:
            return "".join(piece for piece, _ in self._until(stop, keep_escapes))
        except _Unfinished:
            raise _Unfinished(missing) from None

    def _replaced(self, begin: int, value: str | None) -> str:
        every = self._peek() == "/"
        self._place += every
        pattern = self._operand("/", True, "syntax error: missing '/' in ${}")
        replacement = self._operand("}", True, "syntax error: missing '}'")
        if value is None and self.keep_unset:
            return self.text[begin : self._place]
        if every and len(replacement) * (len(value or "") + 1) > LONGEST:
            raise Invalid("the result is too long")
        return self._grown(globs.replace(value or "", pattern, replacement, every))


# A variable's name: a number, a special parameter of the shell, or an identifier.
_NAME = re.compile(rf"\d+|[{re.escape(_SPECIAL)}]|\w+")
_QUOTED = {escape: re.compile(f'[^"${re.escape(escape)}]+') for escape in ("\\", "`")}


def _default(name: str, value: str | None, word: str, colon: bool) -> str:
    return word if value is None or (colon and not value) else value


def _alternative(name: str, value: str | None, word: str, colon: bool) -> str:
    return "" if value is None or (colon and not value) else word


def _demanded(name: str, value: str | None, word: str, colon: bool) -> str:
    if value is None:
        raise Invalid(f"{name}: {word or 'is not allowed to be unset'}")
    if colon and not value:
        raise Invalid(f"{name}: {word or 'is not allowed to be empty'}")
    return value


def _without_beginning(name: str, value: str | None, word: str, colon: bool) -> str:
    greedy = word.startswith("#")
    return globs.trim_prefix(value or "", word[greedy:], greedy)


def _without_end(name: str, value: str | None, word: str, colon: bool) -> str:
    greedy = word.startswith("%")
    return globs.trim_suffix(value or "", word[greedy:], greedy)


_TRIMMED = ("#", "%")
_MODIFIERS: dict[str, Callable[[str, str | None, str, bool], str]] = {
    "-": _default,
    "+": _alternative,
    "?": _demanded,
    "#": _without_beginning,
    "%": _without_end,
}

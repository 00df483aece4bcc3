"""The filters of containerd, as clients of BuildKit write them: which of some things a text chooses by their fields.

Pure. The language is that of containerd's package filters (github.com/containerd/containerd, pkg/filters): selectors
joined by commas, which must all hold, of a field alone (it is there) or a field, `==`, `!=` or `~=`, and a value. A
field is words joined by dots; a word or value may be quoted as in Go. Of several texts one has to hold.
"""

import re
from collections.abc import Callable, Iterable

from engine.errors import Invalid
from engine.literals import quoted
from engine.re2.automaton import Automaton

Fields = Callable[[tuple[str, ...]], str | None]
"""The value of a field, by its words; None where the thing does not have it."""
Filter = Callable[[Fields], bool]

_MOST = 64 * 1024  # characters of all texts
_MOST_EXPRESSIONS = 16
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VALUE = re.compile(r"[^\s,\"'`|/][^\s,]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"|`([^`]*)`')
_SLASHED = re.compile(r"/((?:[^/\\]|\\.)*)/|\|([^|]*)\|")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_OPERATORS = ("==", "!=", "~=")


def compiled(texts: Iterable[str]) -> Filter:
    """The filter of these texts, any of which may hold; all things are chosen where there is none. Raises Invalid."""
    given = list(texts)
    if sum(map(len, given)) > _MOST:
        raise Invalid("the filters are too long")
    if sum(text.count("~=") for text in given) > _MOST_EXPRESSIONS:
        raise Invalid(f"the filters have more than {_MOST_EXPRESSIONS} regular expressions")
    found = [_Reader(text).selectors() for text in given]
    return lambda fields: not found or any(all(test(fields) for test in tests) for tests in found)


class _Reader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def selectors(self) -> list[Filter]:
        """The tests of the text, which must all hold; none where it is empty."""
        found = []
        while self._rest().strip():
            found.append(self._selector())
            if self._rest().strip() and not self._take(","):
                raise self._fault("expected `,`")
        return found

    def _rest(self) -> str:
        return self._text[self._place :]

    def _take(self, word: str) -> bool:
        self._skip()
        if not self._text.startswith(word, self._place):
            return False
        self._place += len(word)
        return True

    def _skip(self) -> None:
        while self._text[self._place : self._place + 1].isspace():
            self._place += 1

    def _fault(self, words: str) -> Invalid:
        return Invalid(f"filters: parse error: {quoted(self._text[:200])}: {words} at {self._place}")

    def _selector(self) -> Filter:
        path = [self._word()]
        while self._take("."):
            path.append(self._word())
        key = tuple(path)
        operator = next((each for each in _OPERATORS if self._take(each)), "")
        if not operator:
            return lambda fields: fields(key) is not None
        if operator == "~=":
            return _matching(key, self._expression())
        value, wanted = self._value(), operator == "=="
        return lambda fields: ((found := fields(key)) is not None and found == value) == wanted

    def _found(self, *patterns: re.Pattern[str]) -> str | None:
        """What one of these finds here: its group, freed of backslashes, or all of it."""
        self._skip()
        for pattern in patterns:
            found = pattern.match(self._text, self._place)
            if found is not None:
                self._place = found.end()
                if pattern is _QUOTED and found[1] is not None:
                    return _ESCAPED.sub(r"\1", found[1])
                return next((group for group in found.groups() if group is not None), found[0])
        return None

    def _word(self) -> str:
        found = self._found(_WORD, _QUOTED)
        if found is None:
            raise self._fault("expected field or quoted")
        return found

    def _value(self) -> str:
        found = self._found(_QUOTED, _VALUE)
        if found is None:
            raise self._fault("expected value or quoted")
        return found

    def _expression(self) -> Automaton:
        text = self._found(_SLASHED, _QUOTED, _VALUE)
        if text is None:
            raise self._fault("expected value or quoted")
        return Automaton([text])


def _matching(key: tuple[str, ...], pattern: Automaton) -> Filter:
    return lambda fields: (found := fields(key)) is not None and pattern.found_in(found)

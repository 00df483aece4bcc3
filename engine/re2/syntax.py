"""Reads a regular expression in the syntax of Go's package regexp, and makes the automaton's program of it.

Pure. Errors are in Go's words.
"""

import string

from engine.errors import Invalid, NotBuilt
from engine.late import TYPE_CHECKING
from engine.re2.classes import PERL, POSIX, CharSet, Test, ranges, unicode_class
from engine.re2.program import ASSERTIONS, OF_LINES, Group, Instruction, Part, repeated

if TYPE_CHECKING:
    from typing import NoReturn

MOST = 10_000
"""The most instructions of a program, which has one for each character of a text that is repeated."""

_MOST_REPEATED, _MOST_NESTED, _TOO_MANY_DIGITS = 1000, 1000, 9

_FOLD, _LINES, _NEWLINE, _UNGREEDY = 1, 2, 4, 8
_FLAGS = {"i": _FOLD, "m": _LINES, "s": _NEWLINE, "U": _UNGREEDY}
_WORD = frozenset(string.ascii_letters + string.digits)
_OCTAL = frozenset(string.octdigits)
_HEX = frozenset(string.hexdigits)
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LAST = 0x10FFFF


def compiled(pattern: str, most: int = MOST) -> list[Instruction]:
    """The program of a pattern. Raises Invalid in Go's words; NotBuilt for one of more instructions than `most`."""
    return _Parser(pattern, most).program()


def capturing(pattern: str, most: int = MOST) -> tuple[list[Instruction], list[str]]:
    """The program of a pattern that remembers where its groups begin and end, and their names, empty for one without.

    The whole is group 0, which the program does not remember. Raises as `compiled`.
    """
    parser = _Parser(pattern, most, captures=True)
    return parser.program(), parser.names


class _Parser:
    def __init__(self, pattern: str, most: int, captures: bool = False) -> None:
        self._text, self._at, self._flags, self._room = pattern, 0, 0, most
        self._captures, self.names = captures, [""]
        self._groups = [Group(0)]
        self._sets: dict[tuple[str, int], CharSet] = {}

    def program(self) -> list[Instruction]:
        """All of it."""
        last_repeat = -1
        while self._at < len(self._text):
            begin, char = self._at, self._text[self._at]
            repeat = self._repeat_count(char)
            if repeat is not None:
                self._repeat(begin, last_repeat, *repeat)
                last_repeat = begin
                continue
            last_repeat = -1
            self._at += 1
            match char:
                case "(":
                    self._open(begin)
                case "|":
                    self._groups[-1].end_alternative()
                    self._grow(2)
                case ")":
                    self._close()
                case "^" | "$":
                    plain = ASSERTIONS["A" if char == "^" else "z"]
                    self._push(OF_LINES[char] if self._flags & _LINES else plain)
                case ".":
                    pairs = "" if self._flags & _NEWLINE else "\n\n"
                    self._push(self._set(f"any but {pairs}", (ranges(pairs), False), negated=True))
                case "[":
                    self._push(self._class(begin))
                case "\\":
                    self._backslash(begin)
                case _:
                    self._literal(char)
        if len(self._groups) > 1:
            self._fail("missing closing )")
        return self._groups[0].whole().code

    def _fail(self, words: str, begin: int = 0, end: int | None = None) -> "NoReturn":
        raise Invalid(f"error parsing regexp: {words}: `{self._text[begin:end]}`")

    def _grow(self, instructions: int) -> None:
        self._room -= instructions
        if self._room < 0:
            raise NotBuilt(f"a regular expression of more than {MOST} steps is not built in this engine")

    def _push(self, instruction: Instruction) -> None:
        self._grow(1)
        self._groups[-1].parts.append(Part([instruction]))

    def _literal(self, char: str) -> None:
        if self._flags & _FOLD:
            self._push(self._set(char, (ranges(char * 2), False)))
        else:
            self._push(char)

    def _set(self, name: str, test: tuple[Test, bool], negated: bool = False) -> CharSet:
        """The set of this test, which is one object for all places that have it under one name."""
        key = (name, self._flags & _FOLD)
        if key not in self._sets:
            self._sets[key] = CharSet([test], bool(key[1]), negated)
        return self._sets[key]

    # Groups and flags.

    def _open(self, begin: int) -> None:
        if not self._text.startswith("?", self._at):
            self._group("")
            return
        rest = self._text[begin : begin + 5]
        named = 4 if len(rest) > 4 and rest[2:4] == "P<" else 3 if len(rest) > 3 and rest[2] == "<" else 0
        if named:
            end = self._text.find(">", begin)
            if end < 0:
                self._fail("invalid named capture", begin)
            name = self._text[begin + named : end]
            if not name or not _WORD.issuperset(name.replace("_", "")):
                self._fail("invalid named capture", begin, end + 1)
            self._group(name)
            self._at = end + 1
            return
        flags, off, seen = self._flags, False, False
        for place in range(begin + 2, len(self._text)):
            self._at = place + 1
            char = self._text[place]
            if char in _FLAGS:
                flags = flags & ~_FLAGS[char] if off else flags | _FLAGS[char]
                seen = True
            elif char == "-" and not off:
                off, seen = True, False
            elif char in ":)" and (seen or not off):
                if char == ":":
                    self._groups.append(Group(self._flags))
                self._flags = flags
                return
            else:
                break
        else:
            self._at = len(self._text)
        self._fail("invalid or unsupported Perl syntax", begin, self._at)

    def _group(self, name: str) -> None:
        self._groups.append(Group(self._flags, len(self.names)))
        self.names.append(name)

    def _close(self) -> None:
        if len(self._groups) == 1:
            self._fail("unexpected )")
        group = self._groups.pop()
        self._flags = group.flags
        part = self._checked(group.whole())
        if self._captures and group.number:
            self._grow(2)
            part.code = [2 * group.number, *part.code, 2 * group.number + 1]
        self._groups[-1].parts.append(part)

    def _checked(self, part: Part) -> Part:
        if part.height > _MOST_NESTED:
            self._fail("expression nests too deeply")
        return part

    # Repetitions.

    def _repeat_count(self, char: str) -> tuple[int, int] | None:
        """How often what is before is repeated, from and to (-1: without bound); None where no such operator is here.

        One that is here is passed.
        """
        if char in "*+?":
            self._at += 1
            return {"*": (0, -1), "+": (1, -1), "?": (0, 1)}[char]
        end = self._text.find("}", self._at) if char == "{" else -1
        if end < 0:
            return None
        low, comma, high = self._text[self._at + 1 : end].partition(",")
        if not _is_count(low) or not (_is_count(high) or not high):
            return None
        begin, self._at = self._at, end + 1
        least = _count(low)
        most = least if not comma else _count(high) if high else -1
        if least > _MOST_REPEATED or most > _MOST_REPEATED or -1 < most < least:
            self._fail("invalid repeat count", begin, self._at)
        return least, most

    def _repeat(self, begin: int, last: int, least: int, most: int) -> None:
        counted = self._text[begin] == "{"
        fewer = self._text.startswith("?", self._at)
        self._at += fewer
        if last >= 0:
            self._fail("invalid nested repetition operator", last, self._at)
        parts = self._groups[-1].parts
        if not parts:
            self._fail("missing argument to repetition operator", begin, self._at)
        part = parts[-1]
        length, times = len(part.code), most if most >= 0 else least
        if counted:
            repeats = part.repeats * max(times, 1) if most else 1
            if max(least, most) >= 2 and repeats > _MOST_REPEATED:
                self._fail("invalid repeat count", begin, self._at)
            part.repeats = repeats
        self._grow(least * length + max(most - least, 0) * (length + 1) + 2)
        part.code = repeated(part.code, least, most, fewer is not bool(self._flags & _UNGREEDY))
        part.height += 1
        self._checked(part)

    # Classes and escapes.

    def _backslash(self, begin: int) -> None:
        char = self._text[self._at : self._at + 1]
        if char in ASSERTIONS:
            self._at += 1
            self._push(ASSERTIONS[char])
        elif char == "C":
            self._fail("invalid escape sequence", begin, begin + 2)
        elif char == "Q":
            literal, _, _ = self._text[begin + 2 :].partition("\\E")
            self._at = begin + 2 + len(literal) + 2
            for each in literal:
                self._literal(each)
        elif (found := self._escaped_class(begin)) is not None:
            self._push(self._set(self._text[begin : self._at], found))
        else:
            self._literal(self._escape(begin))

    def _escaped_class(self, begin: int) -> tuple[Test, bool] | None:
        """The class of Perl's or of Unicode's whose backslash is here, and whether it is turned about."""
        kind = self._text[begin + 1 : begin + 2]
        if kind.lower() in PERL:
            self._at = begin + 2
            return ranges(PERL[kind.lower()]), kind.isupper()
        if kind not in ("p", "P"):
            return None
        self._at = begin + 3
        name = self._text[begin + 2 : self._at]
        if name == "{":
            end = self._text.find("}", begin)
            if end < 0:
                self._fail("invalid character class range", begin)
            name, self._at = self._text[begin + 3 : end], end + 1
        found = unicode_class(name.removeprefix("^"))
        if found is None:
            self._fail("invalid character class range", begin, self._at)
        test, negated = found
        return test, negated ^ name.startswith("^") ^ (kind == "P")

    def _class(self, begin: int) -> CharSet:
        """The set whose bracket is here."""
        negated = self._text.startswith("^", self._at)
        self._at += negated
        tests: list[tuple[Test, bool]] = []
        pairs, first = "", True
        while first or not self._text.startswith("]", self._at):
            first = False
            at = self._at
            if (end := self._text.find(":]", at + 2)) > 0 and self._text.startswith("[:", at):
                name = self._text[at + 2 : end]
                self._at = end + 2
                if name.removeprefix("^") not in POSIX:
                    self._fail("invalid character class range", at, self._at)
                tests.append((ranges(POSIX[name.removeprefix("^")]), name.startswith("^")))
                continue
            if self._text.startswith("\\", at) and (found := self._escaped_class(at)) is not None:
                tests.append(found)
                continue
            low = high = self._class_char(begin)
            if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                high = self._class_char(begin)
                if high < low:
                    self._fail("invalid character class range", at, self._at)
            pairs += low + high
        self._at += 1
        return CharSet([*tests, (ranges(pairs), False)], bool(self._flags & _FOLD), negated)

    def _class_char(self, begin: int) -> str:
        if self._at >= len(self._text):
            self._fail("missing closing ]", begin)
        self._at += 1
        char = self._text[self._at - 1]
        return self._escape(self._at - 1) if char == "\\" else char

    def _next(self) -> str:
        """The next character, which is passed; empty at the end."""
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _escape(self, begin: int) -> str:
        """The character that is written with the backslash at `begin`."""
        self._at = begin + 1
        char = self._next()
        if not char:
            raise Invalid("error parsing regexp: trailing backslash at end of expression: ``")
        following = self._text[self._at : self._at + 1]
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char == "0" or (char in _OCTAL and following in _OCTAL):
            digits = char
            while len(digits) < 3 and self._text[self._at : self._at + 1] in _OCTAL:
                digits += self._next()
            return chr(int(digits, 8))
        if char == "x" and following:
            value = self._hexadecimal()
            if value is not None:
                return chr(value)
        if not char.isascii() or char in _WORD:
            self._fail("invalid escape sequence", begin, self._at)
        return char

    def _hexadecimal(self) -> int | None:
        """The number of two digits or in braces; None for none, where what was read is passed."""
        char = self._next()
        if char != "{":
            digits = char + self._next()
            return int(digits, 16) if len(digits) == 2 and _HEX.issuperset(digits) else None
        value, begin = 0, self._at
        while (char := self._next()) in _HEX:
            value = value * 16 + int(char, 16)
            if value > _LAST:
                return None
        return value if char == "}" and self._at > begin + 1 else None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and (len(text) == 1 or text[0] != "0")


def _count(digits: str) -> int:
    return int(digits) if len(digits) < _TOO_MANY_DIGITS else _MOST_REPEATED + 1

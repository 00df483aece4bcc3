"""Reads the plain part of YAML that configuration files are written in: blocks of mappings and lists, and scalars.

Pure: a text in, values as those of JSON out. What programs write for people to read is in this part: block mappings and
sequences by their indentation, plain and quoted scalars, flow sequences and mappings on one line, comments, and one
document. Anchors, tags, several documents, block scalars and flows over several lines are refused in words. Numbers are
read as Go's library does (YAML 1.1: `0666` is octal). Every loop takes at least one line or one character.
"""

import re

from engine.dataclass import dataclass
from engine.errors import Invalid

Value = str | int | bool | None | list["Value"] | dict[str, "Value"]

_LARGEST = 1 << 20
_DEEPEST = 50
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]{0,18})")
_OCTAL = re.compile(r"0o?([0-7]{1,20})")
_HEX = re.compile(r"0x([0-9a-fA-F]{1,16})")
_WORDS: dict[str, Value] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "/": "/", " ": " "}
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SINGLE = re.compile(r"'((?:[^']|'')*)'")
_FLOW_WORD = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,\[\]{}:"']+(?::(?! )[^,\[\]{}:"']+)*)""")
_REFUSED = ("&", "*", "!", "|", ">", "%", "@", "`")


@dataclass(frozen=True, slots=True)
class _Line:
    """One line with something on it. number: from 1; indent: blanks before it; text: without them and any comment"""

    number: int
    indent: int
    text: str


def load(text: str) -> Value:
    """The value of a document. Raises Invalid with the number of the line that cannot be read."""
    if len(text) > _LARGEST:
        raise Invalid(f"it is larger than {_LARGEST} characters")
    lines = _lines(text)
    if not lines:
        return None
    value, after = _block(lines, 0, lines[0].indent, 0)
    if after < len(lines):
        raise Invalid(f"line {lines[after].number}: it is indented otherwise than those before it")
    return value


def _lines(text: str) -> list[_Line]:
    found: list[_Line] = []
    for number, whole in enumerate(text.splitlines(), 1):
        bare = whole.lstrip(" ")
        if bare.startswith("\t"):
            raise Invalid(f"line {number}: tabs cannot indent")
        bare = _uncommented(bare).rstrip()
        if bare in ("---", "...") and not found:
            continue
        if bare in ("---", "..."):
            raise Invalid(f"line {number}: only one document can be read")
        if bare:
            found.append(_Line(number, len(whole) - len(whole.lstrip(" ")), bare))
    return found


def _uncommented(text: str) -> str:
    """The text up to a `#` that begins a comment: the first one behind a blank and outside of quotes."""
    quote = ""
    escaped = False
    for place, letter in enumerate(text):
        if quote:
            if escaped:
                escaped = False
            elif letter == "\\" and quote == '"':
                escaped = True
            elif letter == quote:
                quote = ""
        elif letter in "\"'" and (place == 0 or text[place - 1] in " [{,:"):
            quote = letter
        elif letter == "#" and (place == 0 or text[place - 1] == " "):
            return text[:place]
    return text


def _block(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Value, int]:
    """The value of the lines from `at` on that are indented so far, and the number of the next line."""
    if depth > _DEEPEST:
        raise Invalid(f"line {lines[at].number}: it is too deep")
    first = lines[at].text
    if first == "-" or first.startswith("- "):
        return _sequence(lines, at, indent, depth)
    if _member(lines[at]) is not None:
        return _mapping(lines, at, indent, depth)
    return _scalar(first, lines[at].number), at + 1


def _sequence(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Value, int]:
    found: list[Value] = []
    while at < len(lines) and lines[at].indent == indent and (lines[at].text + " ").startswith("- "):
        line = lines[at]
        rest = line.text[1:].lstrip(" ")
        if not rest:
            value, at = _below(lines, at + 1, indent, depth)
        else:
            # What stands behind the dash is the first line of a block that is indented as far as it begins.
            inner = _Line(line.number, indent + len(line.text) - len(rest), rest)
            lines[at] = inner
            value, at = _block(lines, at, inner.indent, depth + 1)
        found.append(value)
    return found, at


def _mapping(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Value, int]:
    found: dict[str, Value] = {}
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        member = _member(line)
        if member is None:
            break
        name, rest = member
        if name in found:
            raise Invalid(f"line {line.number}: {name} is there twice")
        if rest:
            found[name], at = _scalar(rest, line.number), at + 1
        else:
            found[name], at = _below(lines, at + 1, indent, depth, of_mapping=True)
    return found, at


def _member(line: _Line) -> tuple[str, str] | None:
    """The key of a line, and what stands behind its colon; None for a line without a key."""
    text = line.text
    if quoted := _DOUBLE.match(text) or _SINGLE.match(text):
        key, rest = quoted[0], text[quoted.end() :].lstrip()
        begins = rest.startswith(": ") or rest == ":"
        return (_name(key, line.number), rest[1:].strip()) if begins else None
    at = text.find(": ")
    if at < 0 and text.endswith(":"):
        at = len(text) - 1
    if at < 1 or text[0] in "[{,#\"'" or text.startswith(_REFUSED):
        return None
    return text[:at].rstrip(), text[at + 1 :].strip()


def _below(lines: list[_Line], at: int, indent: int, depth: int, of_mapping: bool = False) -> tuple[Value, int]:
    """The block below a line that ends with its key or its dash; None where there is none."""
    if at == len(lines):
        return None, at
    line = lines[at]
    if line.indent > indent or (of_mapping and line.indent == indent and (line.text + " ").startswith("- ")):
        return _block(lines, at, line.indent, depth + 1)
    return None, at


def _scalar(text: str, number: int) -> Value:
    if text[0] in "[{":
        flow = _Flow(text, number)
        value = flow.value(0)
        if flow.rest().strip():
            raise Invalid(f"line {number}: there is more behind the last bracket")
        return value
    quoted = _unquoted(text, number)
    return _plain(text, number) if quoted is None else quoted


def _name(text: str, number: int) -> str:
    """The text of a key."""
    quoted = _unquoted(text, number)
    return text if quoted is None else quoted


def _unquoted(text: str, number: int) -> str | None:
    """What stands in the quotes; None for a text without quotes."""
    if found := _SINGLE.fullmatch(text):
        return found[1].replace("''", "'")
    if found := _DOUBLE.fullmatch(text):
        return re.sub(r"\\(.)", lambda escape: _escaped(escape[1], number), found[1])
    if text[:1] in "\"'":
        raise Invalid(f"line {number}: a quote has no end")
    return None


def _escaped(letter: str, number: int) -> str:
    if letter not in _ESCAPES:
        raise Invalid(f"line {number}: \\{letter} is not read")
    return _ESCAPES[letter]


def _plain(text: str, number: int) -> Value:
    if text[:1] in _REFUSED:
        raise Invalid(f"line {number}: {text[:1]} is not read: write it in plain YAML, or in JSON")
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if found := _OCTAL.fullmatch(text):
        return int(found[1], 8)
    if found := _HEX.fullmatch(text):
        return int(found[1], 16)
    return text


class _Flow:
    """A flow sequence or mapping on one line, read from its first bracket on."""

    def __init__(self, text: str, number: int) -> None:
        self._text, self._number, self._at = text, number, 0

    def rest(self) -> str:
        """What was not read."""
        return self._text[self._at :]

    def value(self, depth: int) -> Value:
        """The value that begins here; a scalar ends before a comma, a colon or a closing bracket."""
        if depth > _DEEPEST:
            raise Invalid(f"line {self._number}: it is too deep")
        self._skip()
        if self._take("["):
            return self._sequence(depth)
        if self._take("{"):
            return self._mapping(depth)
        return _scalar_of_flow(self._word(), self._number)

    def _sequence(self, depth: int) -> Value:
        found: list[Value] = []
        while not self._ends("]"):
            found.append(self.value(depth + 1))
            self._next("]")
        return found

    def _mapping(self, depth: int) -> Value:
        found: dict[str, Value] = {}
        while not self._ends("}"):
            name = _name(self._word(), self._number)
            if not self._take(":"):
                raise Invalid(f"line {self._number}: a key has no colon")
            found[name] = self.value(depth + 1)
            self._next("}")
        return found

    def _word(self) -> str:
        self._skip()
        found = _FLOW_WORD.match(self._text, self._at)
        if found is None or not found[0]:
            raise Invalid(f"line {self._number}: a value is missing")
        self._at = found.end()
        word = found[0].strip()
        self._skip()
        return word

    def _ends(self, bracket: str) -> bool:
        self._skip()
        return self._take(bracket)

    def _next(self, bracket: str) -> None:
        """Behind a member there is a comma, or the bracket, which is left."""
        self._skip()
        if not self._take(",") and not self._text.startswith(bracket, self._at):
            raise Invalid(f"line {self._number}: a {bracket} is missing")

    def _take(self, letter: str) -> bool:
        taken = self._text.startswith(letter, self._at)
        self._at += taken
        return taken

    def _skip(self) -> None:
        while self._text.startswith(" ", self._at):
            self._at += 1


def _scalar_of_flow(text: str, number: int) -> Value:
    quoted = _unquoted(text, number)
    return _plain(text, number) if quoted is None else quoted

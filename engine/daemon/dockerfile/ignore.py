"""The patterns of a .dockerignore, or of --exclude: which paths of a build context they leave out.

Pure. The patterns are docker's: Go's filepath.Match with `**`, and `!` to take paths back. The last pattern that
matches a path, or a directory above it, decides. Each pattern becomes a regular expression in which no repetition is
tried twice (it is atomic, or bounded by the slashes of a path). Otherwise Python's engine would take ages for a hostile
pattern.
"""

import posixpath
import re
from collections.abc import Callable
from functools import partial

from engine.daemon.dockerfile.gotext import SPACE
from engine.errors import Invalid

LARGEST = 2**17
MOST_PATTERNS = 2000
LONGEST_PATTERN = 1024

_LARGE = 2**13
_MOST_REMEMBERED = 4096

# The elements of a pattern beside characters; each of them may match nothing.
_STAR, _GAP, _REST = "star", "gap", "rest"
_ANY = "[^/]"

Matcher = Callable[[str], object]


class Ignore:
    """The patterns of one .dockerignore. Raises Invalid for a malformed pattern, and for a text that is too large.

    patterns: in their shortest form, in order
    """

    def __init__(self, text: str) -> None:
        if len(text) > LARGEST:
            raise Invalid(f"a .dockerignore of {len(text)} characters is too large: {LARGEST} are allowed")
        patterns = [pattern for line in text.removeprefix("\ufeff").split("\n") if (pattern := _cleaned(line))]
        if len(patterns) > MOST_PATTERNS:
            raise Invalid(f"the .dockerignore has more than {MOST_PATTERNS} patterns")
        self.patterns = tuple(patterns)
        self._taken_back = tuple(pattern.startswith("!") for pattern in patterns)
        self._matchers = tuple(_matcher(pattern.removeprefix("!")) for pattern in patterns)
        if len(text) > _LARGE:
            # The module `re` would keep the expressions in its cache after the build: megabytes for a hostile file.
            re.purge()
        # Path of a directory → a bit for each pattern that matches it or a directory above it.
        self._directories: dict[str, int] = {}

    @property
    def takes_back(self) -> bool:
        """Whether a later `!` pattern may keep something in a directory that is left out."""
        return any(self._taken_back)

    def matches(self, path: str, is_directory: bool = False) -> bool:
        """Whether a path of the context ("a/b", no slash in front) is left out.

        No pattern distinguishes files from directories, and a slash at its end means nothing. `is_directory` only says
        that the caller will ask for paths below this one, so the answer is worth remembering.
        """
        path = path.strip("/")
        if not path:
            return False  # the context itself
        hits = (
            self._of_directory(path) if is_directory else self._of_directory(posixpath.dirname(path)) | self._own(path)
        )
        return bool(hits) and not self._taken_back[hits.bit_length() - 1]

    def _of_directory(self, path: str) -> int:
        """A bit for each pattern that matches the directory or one above it."""
        unknown = []
        while path and path not in self._directories:
            unknown.append(path)
            path = posixpath.dirname(path)
        hits = self._directories[path] if path else 0
        for directory in reversed(unknown):
            hits |= self._own(directory)
            if len(self._directories) >= _MOST_REMEMBERED:
                self._directories.clear()
            self._directories[directory] = hits
        return hits

    def _own(self, path: str) -> int:
        return sum(1 << at for at, matcher in enumerate(self._matchers) if matcher(path))


def _cleaned(line: str) -> str:
    """The pattern of a line in its shortest form; "" for an empty line or a comment. Raises Invalid."""
    pattern = line.strip(SPACE)
    if line.startswith("#") or not pattern:
        return ""
    taken_back = pattern.startswith("!")
    pattern = pattern.removeprefix("!").strip(SPACE) if taken_back else pattern
    if not pattern:
        raise Invalid('illegal exclusion pattern: "!"')
    if len(pattern) > LONGEST_PATTERN:
        raise Invalid(f"a pattern of {len(pattern)} characters in a .dockerignore is too long")
    pattern = posixpath.normpath(pattern).lstrip("/").strip(SPACE) or "/"
    return ("!" if taken_back else "") + pattern


def _matcher(pattern: str) -> Matcher:
    """A function that returns whether a path matches this one pattern."""
    elements = _elements(pattern)
    if not any(element in (_STAR, _GAP, _REST) or len(element) > 2 for element in elements):
        return _literal(elements).__eq__
    if elements[0] == _GAP and not pattern.startswith("**/") and _plain(elements[1:]):
        # A pattern `**text` without further wildcards matches every path that ends in the text.
        return partial(_ends, _literal(elements[1:]))
    whole = all(at == 0 or elements[at - 1] == "/" for at, element in enumerate(elements) if element == _GAP)
    return re.compile(_expression(elements), re.DOTALL).fullmatch if whole else _Automaton(elements)


def _ends(suffix: str, path: str) -> bool:
    return path.endswith(suffix)


def _plain(elements: list[str]) -> bool:
    return all(element not in (_STAR, _GAP, _REST) and len(element) <= 2 for element in elements)


def _literal(elements: list[str]) -> str:
    return "".join(element[-1] for element in elements)


def _elements(pattern: str) -> list[str]:
    """The pattern split into elements.

    An element is a star, a gap (`**`: any directories), the rest of a path (`**` at the end), or the expression of one
    character. The expression of one character is the character, perhaps after a backslash, or it is longer.
    """
    elements: list[str] = []
    place = 0
    while place < len(pattern):
        character = pattern[place]
        if pattern.startswith("**", place):
            place += 2 + pattern.startswith("/", place + 2)
            # Two gaps in a row are one gap.
            if elements[-1:] == [_GAP]:
                elements.pop()
            elements.append(_GAP if place < len(pattern) else _REST)
        elif character == "*":
            place += 1
            elements.append(_STAR)
        elif character == "?":
            place += 1
            elements.append(_ANY)
        elif character == "[":
            found = _CLASS.match(pattern, place)
            if found is None:
                raise Invalid("syntax error in pattern")
            place = found.end()
            elements.append(_one_of(found[1], found[2]))
        else:
            escaped = character == "\\"
            place += 1 + escaped
            if place > len(pattern):
                raise Invalid("syntax error in pattern")
            elements.append(re.escape(pattern[place - 1]))
    return elements


_IN_CLASS = r"(?:\\.|[^\\\]\-])"
_CLASS = re.compile(rf"\[(\^?)((?:{_IN_CLASS}(?:-{_IN_CLASS})?)++)\]", re.DOTALL)
_RANGE = re.compile(rf"({_IN_CLASS})(?:-({_IN_CLASS}))?", re.DOTALL)


def _one_of(negated: str, members: str) -> str:
    """The expression of one character of a class `[...]`, which never matches a slash."""
    pieces = []
    for low, high in _RANGE.findall(members):
        low, high = low[-1:], high[-1:] or low[-1:]
        if high < low:
            raise Invalid("syntax error in pattern")
        pieces.append(f"{re.escape(low)}-{re.escape(high)}")
    return f"(?!/)[{'^' if negated else ''}{''.join(pieces)}]"


def _expression(elements: list[str]) -> str:
    """The regular expression of a pattern whose gaps all begin after a slash, so that each gap is whole directories."""
    *firsts, last = _split(elements, _GAP)
    open_end = last[-1:] == [_REST]
    end = _parts(last[:-1] if open_end else last)
    if not firsts:
        return end + (".*" if open_end else "")
    begin, *others = (_parts(one) for one in firsts)
    between = "".join(f"(?>(?:[^/]*+/)*?{one})" for one in others)
    return begin + between + (f"(?>(?:[^/]*+/)*?{end}).*" if open_end else f"(?:[^/]*+/)*{end}")


def _parts(elements: list[str]) -> str:
    """The expression of parts of a path with slashes between them."""
    return "/".join(_part(part) for part in _split(elements, "/"))


def _part(elements: list[str]) -> str:
    """The expression of one part of a path.

    Each star except the last stops at the first place that fits what follows it.
    """
    first, *others = ("".join(piece) for piece in _split(elements, _STAR))
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{one})" for one in others[:-1]) + f"[^/]*{others[-1]}"


def _split(elements: list[str], at: str) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for element in elements:
        if element == at:
            pieces.append([])
        else:
            pieces[-1].append(element)
    return pieces


class _Automaton:
    """Matches patterns with a gap in the middle of a name (`a**b`). Such a gap is nothing, or all up to a slash.

    It follows all ways through the pattern at once, as the bits of a number.
    """

    def __init__(self, elements: list[str]) -> None:
        self._elements = elements
        self._single: dict[str, int] = {}
        self._star, self._gap, self._rest = (
            sum(1 << at for at, element in enumerate(elements) if element == kind) for kind in (_STAR, _GAP, _REST)
        )
        self._tests = [
            (re.compile(element), 1 << at) for at, element in enumerate(elements) if element not in (_STAR, _GAP, _REST)
        ]

    def __call__(self, path: str) -> bool:
        now, inside = self._with_nothing(1), 0
        for character in path:
            if character not in self._single:
                self._single[character] = sum(bit for test, bit in self._tests if test.fullmatch(character))
            after = (now & self._single[character]) << 1 | now & self._rest
            if character != "/":
                after |= now & self._star
            inside |= now & self._gap
            if character == "/":
                after |= inside << 1
            now = self._with_nothing(after)
        return bool(now >> len(self._elements) & 1)

    def _with_nothing(self, states: int) -> int:
        """The states, and those reached when stars, gaps and rests match nothing."""
        may = self._star | self._gap | self._rest
        while (more := states | (states & may) << 1) != states:
            states = more
        return states

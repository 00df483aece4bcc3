"""Decides what a .dockerignore leaves out of a build context.

Pure. The patterns are those of Go's filepath.Match with `**`; a pattern with `!` takes back. The last pattern that
matches a path, or a directory above it, decides. Each pattern becomes an expression that is matched without trying a
repetition twice, so that no file can hold up the client.
"""

import re
from collections.abc import Callable, Sequence

from engine.errors import Invalid

LARGEST = 128 * 1024
MOST_PATTERNS = 2000
_LONGEST = 1024
_MOST_GAPS_IN_NAMES = 2
_CLASS = re.compile(r"\[(\^?)((?:\\.|[^\\\]])+)\]", re.DOTALL)
_PIECE = re.compile(r"\*+|\?|\\.|\[(?:\\.|[^\\\]])+\]|.", re.DOTALL)
_WILD = frozenset("*?[\\")


class Ignored:
    """The patterns of one .dockerignore. Raises Invalid for a malformed pattern, and for too large a text.

    kept: paths that are never left out, whatever the patterns say
    """

    def __init__(self, text: str, kept: Sequence[str] = ()) -> None:
        if len(text) > LARGEST:
            raise Invalid(f"a .dockerignore of {len(text)} characters is too large: {LARGEST} are allowed")
        patterns = [pattern for line in text.removeprefix("\ufeff").splitlines() if (pattern := cleaned(line))]
        if len(patterns) > MOST_PATTERNS:
            raise Invalid(f"the .dockerignore has more than {MOST_PATTERNS} patterns")
        self._kept = frozenset(kept)
        self._taken_back = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
        self._matchers = [(pattern.startswith("!"), matcher(pattern.removeprefix("!"))) for pattern in patterns]

    def left_out(self, path: str) -> bool:
        """Whether a path of the context (`a/b`) is left out."""
        if path in self._kept:
            return False
        parts = path.split("/")
        above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
        out = False
        for taken_back, matches in self._matchers:
            # A pattern that would change nothing need not be tried.
            if taken_back == out and any(map(matches, above)):
                out = not taken_back
        return out

    def choice(self, path: str, directory: bool) -> tuple[bool, bool]:
        """For a walk: whether a path is part of the context, and whether something below it may be."""
        out = self.left_out(path)
        return not out, directory and (not out or self._may_hold(path))

    def _may_hold(self, path: str) -> bool:
        """Whether something below a directory that is left out may be taken back."""
        if any(name.startswith(path + "/") for name in self._kept):
            return True
        for pattern in self._taken_back:
            fixed = pattern[: min((pattern.index(mark) for mark in _WILD if mark in pattern), default=len(pattern))]
            if pattern.startswith(path + "/") or (len(fixed) < len(pattern) and f"{path}/".startswith(fixed)):
                return True
        return False


def cleaned(line: str) -> str:
    """The pattern of a line in its shortest form; "" for an empty line or a comment. Raises Invalid."""
    pattern = line.strip()
    if line.startswith("#") or not pattern:
        return ""
    taken_back, pattern = pattern.startswith("!"), pattern.removeprefix("!").strip()
    if not pattern:
        raise Invalid('illegal exclusion pattern: "!"')
    if len(pattern) > _LONGEST:
        raise Invalid(f"a pattern of {len(pattern)} characters in a .dockerignore is too long")
    parts: list[str] = []
    for part in pattern.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return ("!" if taken_back else "") + "/".join(parts)


def matcher(pattern: str) -> Callable[[str], object]:
    """A function that says whether a path matches this one pattern in whole. Raises Invalid."""
    if not _WILD & set(pattern):
        return pattern.__eq__
    parts = pattern.split("/")
    if not all("**" not in part or part == "**" for part in parts):
        return _odd(pattern)
    groups: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            groups.append([])
        else:
            groups[-1].append(_name(part))
    first, *others = ("/".join(group) for group in groups)
    # Directories, as few as will do: what follows is found at the first place where it fits. The last one may be tried
    # at each place, because the path has to end there.
    expression = first + ("/" if first and others else "")
    for other in others[:-1]:
        expression += f"(?>(?:[^/]*+/)*?{other}/)" if other else ""
    if others:
        expression += f"(?:[^/]*+/)*{others[-1]}" if others[-1] else ".*"
    return re.compile(expression, re.DOTALL).fullmatch


def _name(part: str) -> str:
    """The expression of one part of a path: each star but the last stops at the first place that fits."""
    pieces: list[str] = [""]
    for piece in _PIECE.findall(part):
        if piece.startswith("*"):
            pieces.append("")
        else:
            pieces[-1] += _character(piece)
    first, *others = pieces
    if not others:
        return first
    return first + "".join(f"(?>[^/]*?{one})" for one in others[:-1]) + f"[^/]*{others[-1]}"


def _character(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    if piece.startswith("[") and len(piece) > 1:
        found = _CLASS.fullmatch(piece)
        if found is None:
            raise Invalid("syntax error in pattern")
        expression = f"(?!/)[{found[1]}{_members(found[2])}]"
        try:
            re.compile(expression)
        except re.error as error:
            raise Invalid("syntax error in pattern") from error
        return expression
    if piece in ("[", "\\"):
        raise Invalid("syntax error in pattern")
    return re.escape(piece[-1])


def _members(text: str) -> str:
    """The members of a class for `re`: as they are, with what has a meaning there alone escaped."""
    return re.sub(r"\\(.)|([\[&~|^])", lambda found: re.escape(found[1] or found[2]), text, flags=re.DOTALL)


def _odd(pattern: str) -> Callable[[str], object]:
    """A pattern with `**` beside other characters of a name (`a**b`): nothing, or all up to a slash."""
    if pattern.count("**") > _MOST_GAPS_IN_NAMES:
        raise Invalid(f"the pattern {pattern} in the .dockerignore could take too long")
    expression = ""
    pieces = _PIECE.findall(pattern)
    for at, piece in enumerate(pieces):
        if piece.startswith("**"):
            expression += ".*" if at == len(pieces) - 1 else "(?:.*/)?" if at else ".*"
        elif piece == "*":
            expression += "[^/]*"
        else:
            expression += "/" if piece == "/" else _character(piece)
    if expression.count("*") > _MOST_GAPS_IN_NAMES * 2:
        raise Invalid(f"the pattern {pattern} in the .dockerignore could take too long")
    return re.compile(expression, re.DOTALL).fullmatch

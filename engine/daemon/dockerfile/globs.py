"""The glob patterns in substitutions of variables: ${x#pattern}, ${x%pattern} and ${x/pattern/text}.

Pure. A pattern has `*`, `?` and backslash escapes, and no brackets. It is split at its stars, so that the search never
backtracks: the regular expressions of dockerd's language (Go) take linear time, and Python's do not. As in Go, neither
`*` nor `?` matches a newline.
"""

import re
from collections.abc import Iterator

from engine.errors import Invalid

# The longest product of a pattern's and a value's length; a search of this size takes some hundredths of a second.
_MOST_STEPS = 2**23
_LONGEST = 512

_TOKEN = re.compile(r"\\[}/]|\\.?|.", re.DOTALL)
_WILD = {"*": None, "?": "."}


def trim_prefix(value: str, pattern: str, greedy: bool) -> str:
    """The value without the shortest (greedy: the longest) prefix that matches."""
    head, tail, _ = _compiled(_parts(pattern), value, greedy)
    begun = head.match(value)
    found = begun and tail.match(value, begun.end())
    return value[found.end() :] if found else value


def trim_suffix(value: str, pattern: str, greedy: bool) -> str:
    """The value without the shortest (greedy: the longest) suffix that matches.

    Pattern and value are read backwards.
    """
    head, tail, _ = _compiled(_parts(pattern)[::-1], value, greedy)
    backwards = value[::-1]
    begun = head.match(backwards)
    found = begun and tail.match(backwards, begun.end())
    return value[: len(value) - found.end()] if found else value


def replace(value: str, pattern: str, replacement: str, every: bool) -> str:
    """The value with the first (or every) match replaced, each match as long as possible."""
    pieces, done = [], 0
    for start, end in _places(value, pattern):
        pieces += [value[done:start], replacement]
        done = end
        if not every:
            break
    return "".join([*pieces, value[done:]])


def _places(value: str, pattern: str) -> Iterator[tuple[int, int]]:
    """(start, end) of each match, from left to right, without overlaps."""
    head, tail, length = _compiled(_parts(pattern), value, True)
    place, done = 0, -1
    while place <= len(value) and (begun := head.search(value, place)):
        start, found = begun.start(), tail.match(value, begun.end())
        if found is None:
            # The rest of the pattern is not found in this line, so no later start in the same line would find it
            # either.
            line_end = value.find("\n", begun.end())
            if line_end < 0:
                return
            place = max(start + 1, line_end + 1 - length)
            continue
        # An empty match right behind the last match does not count.
        if found.end() > start or start > done:
            yield start, found.end()
        done = found.end()
        place = done + (done == start)


def _parts(pattern: str) -> list[str | None]:
    """The pattern as regular expressions of one character each, with None for each star."""
    if len(pattern) > _LONGEST:
        raise Invalid(f"a pattern of {len(pattern)} characters in a substitution is too long")
    parts: list[str | None] = []
    for token in _TOKEN.findall(pattern):
        if token in _WILD:
            parts.append(_WILD[token])
        elif token[0] != "\\":
            parts.append(re.escape(token))
        elif token[1:] in ("}", "/"):
            parts.append(token[1:])
        elif token[1:] in ("*", "?", "\\"):
            parts.append(re.escape(token[1:]))
        else:
            raise Invalid(f"invalid pattern ({pattern}) in substitution: invalid escape '\\{token[1:]}'")
    return parts


def _compiled(parts: list[str | None], value: str, greedy: bool) -> tuple[re.Pattern[str], re.Pattern[str], int]:
    """The expression before the first star, the expression of the rest, and the length of the former in characters.

    Each star of the rest stops at the first place that fits what follows it, and never leaves it (atomic). Only the
    last star looks for the last such place, if greedy: when the earlier stars stop early, it has the most room.
    """
    if len(parts) * len(value) > _MOST_STEPS:
        raise Invalid(f"a value of {len(value)} characters is too long for the pattern of its substitution")
    pieces: list[list[str]] = [[]]
    for part in parts:
        if part is None:
            pieces.append([])
        else:
            pieces[-1].append(part)
    first, *others = ("".join(piece) for piece in pieces)
    last = len(others) - 1
    tail = (f"(?>.*{'' if greedy and at == last else '?'}{other})" for at, other in enumerate(others))
    return re.compile(first), re.compile("".join(tail)), len(pieces[0])

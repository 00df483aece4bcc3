"""The patterns of ${x#pattern}, ${x%pattern} and ${x/pattern/text}: `*`, `?` and a backslash, no brackets.

Pure. A pattern is taken apart at its stars, so that the search never goes back and tries again: dockerd's engine for
regular expressions is linear, Python's is not. Neither `*` nor `?` matches a line's end, as there.
"""

import re
from collections.abc import Iterator

from engine.errors import Invalid

# A pattern's length times a value's: what searches within some hundredths of a second.
_MOST_STEPS = 2**23
_LONGEST = 512

_TOKEN = re.compile(r"\\[}/]|\\.?|.", re.DOTALL)
_WILD = {"*": None, "?": "."}


def trim_prefix(value: str, pattern: str, greedy: bool) -> str:
    """The value without the shortest (greedy: the longest) beginning that matches."""
    head, tail, _ = _compiled(_parts(pattern), value, greedy)
    begun = head.match(value)
    found = begun and tail.match(value, begun.end())
    return value[found.end() :] if found else value


def trim_suffix(value: str, pattern: str, greedy: bool) -> str:
    """The value without the shortest (greedy: the longest) end that matches: both read from the back."""
    head, tail, _ = _compiled(_parts(pattern)[::-1], value, greedy)
    backwards = value[::-1]
    begun = head.match(backwards)
    found = begun and tail.match(backwards, begun.end())
    return value[: len(value) - found.end()] if found else value


def replace(value: str, pattern: str, replacement: str, every: bool) -> str:
    """The value with the first (or every) place that matches replaced, the longest match each time."""
    pieces, done = [], 0
    for start, end in _places(value, pattern):
        pieces += [value[done:start], replacement]
        done = end
        if not every:
            break
    return "".join([*pieces, value[done:]])


def _places(value: str, pattern: str) -> Iterator[tuple[int, int]]:
    """Where the pattern matches, from left to right, none over another."""
    head, tail, length = _compiled(_parts(pattern), value, True)
    place, done = 0, -1
    while place <= len(value) and (begun := head.search(value, place)):
        start, found = begun.start(), tail.match(value, begun.end())
        if found is None:
            # What follows the first star is not in this line: a later beginning in it would find no more.
            line_end = value.find("\n", begun.end())
            if line_end < 0:
                return
            place = max(start + 1, line_end + 1 - length)
            continue
        # Nothing is not found again right behind what was found.
        if found.end() > start or start > done:
            yield start, found.end()
        done = found.end()
        place = done + (done == start)


def _parts(pattern: str) -> list[str | None]:
    """Regular expressions of one character each, None for a star."""
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
    """What comes before the first star, the rest, and the length of the former.

    Each star of the rest stops at the first place that what follows it allows, and stays there (atomic); only the last
    one looks for the last such place, if greedy: the earlier ones leave it all the room there is.
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

"""Places in a Dockerfile: as a message's JSON, and as the excerpt with marked lines that a client shows.

Pure. The forms are BuildKit's (solver/pb/ops.proto, Location; solver/errdefs).
"""

from engine.daemon.jsontext import Object

_RULE = "-" * 20
# So many lines stand beside those that are marked: fewer beside several of them.
_AROUND_ONE, _AROUND_MORE = 4, 2


def ranges(first: int, last: int) -> list[Object]:
    """Each line from the first to the last one as a range of its own, as BuildKit tells them."""
    return [{"start": {"line": line}, "end": {"line": line}} for line in range(first, max(first, last) + 1)]


def excerpt(name: str, data: bytes, first: int, last: int) -> str:
    """The lines of the file, marked, with some around them; "" where the file has none of them."""
    lines = data.decode("utf-8", "replace").split("\n")
    last = min(max(first, last), len(lines))
    if not 1 <= first <= len(lines):
        return ""
    begin, end = first, last
    wanted, taken = _AROUND_ONE if first == last else _AROUND_MORE, 0
    while taken < wanted:
        if begin > 1:
            begin, taken = begin - 1, taken + 1
        if end < len(lines):
            end, taken = end + 1, taken + 1
        taken += 1
    shown = [
        f" {number:3d} | {'>>>' if first <= number <= last else '   '} {lines[number - 1]}\n"
        for number in range(begin, end + 1)
    ]
    return f"{name}:{first}\n{_RULE}\n{''.join(shown)}{_RULE}\n"

"""Reads which subordinate ids a user has (subuid(5), subgid(5))."""

FILES = {"uid": "/etc/subuid", "gid": "/etc/subgid"}
_LARGEST_FILE = 1 << 20
_MOST_RANGES = 64
_LAST_ID = 0xFFFFFFFE

Range = tuple[int, int]
"""The first id on the host, and how many."""


def ranges(text: str, names: tuple[str, ...] = ()) -> list[Range]:
    """A user's ranges in the text of a subuid(5) file; names: what the user is called there, a name or digits.

    Without names, those of all users. Lines that do not parse are passed over.
    """
    found = []
    for line in text.splitlines():
        owner, _, rest = line.strip().partition(":")
        first, _, count = rest.partition(":")
        if (owner in names or not names) and _is_number(first) and _is_number(count):
            begin, size = int(first), int(count)
            if 0 < begin <= _LAST_ID and 0 < size <= _LAST_ID - begin:
                found.append((begin, size))
    return found[:_MOST_RANGES] if names else found


def read(kind: str, names: tuple[str, ...] = ()) -> list[Range]:
    """The ranges in the host's file; none where it is missing or may not be read. kind: `uid` or `gid`"""
    try:
        with open(FILES[kind], encoding="utf-8", errors="replace") as file:
            return ranges(file.read(_LARGEST_FILE), names)
    except OSError:
        return []


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10

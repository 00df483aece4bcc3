"""The value of --chown as a uid and a gid: numbers as written, names by the base image's passwd and group files.

Runs in the thread that looks into the base. The host's user database is never asked. Rules and error texts are
dockerd's.
"""

from engine.errors import Invalid
from engine.literals import natural
from engine.sandbox import users

_DIGITS = 10  # the digits of a number; a longer text is a name
_LARGEST = 2**32 - 2
_FAILED = "unable to convert uid/gid chown string to host mapping: "


def split(text: str) -> tuple[str, str]:
    """User and group of a --chown; a user alone is the name of the group too. Raises Invalid."""
    parts = text.split(":")
    if len(parts) > 2:
        raise Invalid(f"{_FAILED}invalid chown string format: {text}")
    return parts[0], parts[-1]


def numbers(text: str) -> tuple[int, int] | None:
    """uid and gid where both are written as numbers, None where a name has to be looked up. Raises Invalid."""
    user, group = split(text)
    if not (_is_number(user) and _is_number(group)):
        return None
    return _id(user), _id(group)


def look_up(root: int, text: str) -> tuple[int, int]:
    """uid and gid, with names looked up in the passwd and group files beneath `root`. Raises Invalid, OSError."""
    user, group = split(text)
    return (
        _found(root, "/etc/passwd", "uid", "user", user),
        _found(root, "/etc/group", "gid", "group", group),
    )


def _found(root: int, path: str, number: str, kind: str, name: str) -> int:
    if _is_number(name):
        return _id(name)
    for line in users.read(root, path).split("\n"):
        fields = line.split(":")
        if name and len(fields) > 2 and fields[0] == name and _is_number(fields[2]):
            return _id(fields[2])
    raise Invalid(f"{_FAILED}can't find {number} for {kind} {name}: no such {kind}: {name}")


def _is_number(text: str) -> bool:
    return natural(text.removeprefix("-"), 10**_DIGITS - 1) is not None


def _id(text: str) -> int:
    number = natural(text, _LARGEST)
    if number is None:
        raise Invalid(f"{_FAILED}uids and gids must be in range 0-{_LARGEST}, and {text} is not")
    return number

"""What an attacker would like to reach of the host, and how to see that nobody has touched it."""

from pathlib import Path

SECRET = "of the host"


def place(above: Path) -> Path:
    """Make a directory with a secret, and return it. No container has a path of that name."""
    made = above / "bait"
    made.mkdir(mode=0o700)
    (made / "secret").write_text(SECRET)
    (made / "secret").chmod(0o600)
    return made


def state(place: Path) -> list[tuple]:
    """All that could be changed of a tree."""
    found = []
    for path in (place, *sorted(place.rglob("*"))):
        status = path.lstat()
        found.append((str(path), status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, status.st_size))
    return found

"""The differences from the transcript that are meant, each with its reason; a row that no answer needs is an error."""

from typing import NamedTuple


class Meant(NamedTuple):
    """One meant difference.

    calls: the numbers of the calls, empty for all; what, where: as in `compare.Departure`, `where` is a pattern
    """

    calls: frozenset[int]
    what: str
    where: str
    reason: str


def meant(calls: tuple[int, ...], what: str, where: str, reason: str) -> Meant:
    """A row of the table."""
    return Meant(frozenset(calls), what, where, reason)


# Fields taken out of a request before it is sent, so that what follows it can be asked at all.
REDUCED = {
    159: (
        ("Healthcheck", "PortBindings", "RestartPolicy", "Binds", "Tmpfs"),
        "health checks, published ports, restart policies and mounts come with later issues",
    ),
}

TOO_NEW = "the recording's daemon speaks up to 1.56 and from 1.40, this engine up to 1.54 and from 1.24"
NO_RUNC = "there is no runc, shim or containerd here whose names the text could carry"

DIFFERENCES: tuple[Meant, ...] = (meant((4, 5), "text", "|message", TOO_NEW),)

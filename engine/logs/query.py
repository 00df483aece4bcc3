"""The query of a client that reads a log: streams, times, tail and how each line is shown.

Pure data; made by the daemon from the request's query, used by the C and Python readers.
"""

from engine.dataclass import dataclass
from engine.logs.format import NEVER, STDERR, STDOUT


@dataclass(frozen=True, slots=True)
class Query:
    """Which lines of a log are wanted, and how they are shown.

    stdout, stderr: the streams wanted
    since_ns, until_ns: only lines whose time is in [since_ns, until_ns], ns since the epoch; until_ns 0 is "no end". A
        line's time is that of the chunk that holds its first byte
    tail: only the last so many lines of the wanted streams, counted (as docker does) before since and until; None: all
    timestamps: each line begins with its time, RFC 3339 with nine digits, and a space
    prefix: put before each line, after the time, unchanged: the details with the space that ends them
    tty: raw bytes, no frames
    end: nothing that was written behind this place is wanted: a segment and how many records it has, or for a log of
        JSON lines a file's inode and an offset, and then not together with `tail`
    """

    stdout: bool = True
    stderr: bool = True
    since_ns: int = 0
    until_ns: int = 0
    tail: int | None = None
    timestamps: bool = False
    prefix: bytes = b""
    tty: bool = False
    end: tuple[int, int] | None = None

    @property
    def streams(self) -> frozenset[int]:
        """The numbers of the wanted streams."""
        return frozenset(stream for stream, wanted in ((STDOUT, self.stdout), (STDERR, self.stderr)) if wanted)

    @property
    def first_ns(self) -> int:
        """The earliest time wanted, in ns; a time before the epoch is the epoch."""
        return min(max(self.since_ns, 0), NEVER)

    @property
    def last_ns(self) -> int:
        """The latest time wanted, in ns."""
        return NEVER if self.until_ns <= 0 else min(self.until_ns, NEVER)

"""Makes the stream of 100-byte lines for the log and attach benchmarks, as a shell command and as a container.

`yes` and `head` write it, inside a container and outside, so that the floor and the engines move the same bytes of the
same programs.
"""

from bench import client, image

LINE = 100
"""Bytes of a line, its newline included."""

HEADER = 8
"""Bytes of the header of each frame in a stream without a terminal."""


def size(megabytes: int) -> int:
    """The number of bytes of the stream, which has whole lines only."""
    return megabytes * 1_000_000 // LINE * LINE


def command(megabytes: int, programs: str = "/bin") -> str:
    """The shell command that writes the stream; `programs` is the directory of `yes` and `head`.

    It has full paths, because busybox's shell would run its own `yes` and `head`.
    """
    return f"{programs}/yes {'x' * (LINE - 1)} | {programs}/head -c {size(megabytes)}"


def create(connection: client.Connection, megabytes: int, **more: object) -> str:
    """Create a container that writes the stream and ends; returns its id."""
    return client.create(connection, image.NAME, ["sh", "-c", command(megabytes)], **more)

"""The stream of 100-byte lines that the log and attach cases use.

`yes` and `head` make it, inside a container as outside, so that the floor and the engines move the same bytes out of
the same programs.
"""

from bench import client, image

LINE = 100
"""Bytes of a line, with its end."""

HEADER = 8
"""Bytes of the mark before each frame of a stream without a terminal."""


def size(megabytes: int) -> int:
    """The bytes of the stream: whole lines only."""
    return megabytes * 1_000_000 // LINE * LINE


def command(megabytes: int, programs: str = "/bin") -> str:
    """The shell's command that writes the stream; `programs` is the directory of `yes` and `head`.

    A full path, because busybox's shell would take its own.
    """
    return f"{programs}/yes {'x' * (LINE - 1)} | {programs}/head -c {size(megabytes)}"


def create(connection: client.Connection, megabytes: int, **more: object) -> str:
    """Create a container that writes the stream and ends."""
    return client.create(connection, image.NAME, ["sh", "-c", command(megabytes)], **more)

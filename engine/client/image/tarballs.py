"""The verbs `engine save` and `engine load`: images to and from a tar archive.

Runs in the client's one thread.
"""

import os
import sys
from collections.abc import Iterator, Sequence

from engine.client import progress
from engine.client.api import Api
from engine.client.image.imagenames import platform_of
from engine.client.terminal import size as terminal_size
from engine.client.writing import write_all
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid

_PLATFORM = Option("platform", 'Only the given platform variant, as "os[/arch[/variant]]" (e.g., "linux/amd64")')
SAVE_OPTIONS = (Option("output", "Write to a file, instead of STDOUT", short="o"), _PLATFORM)
LOAD_OPTIONS = (
    Option("input", "Read from tar archive file, instead of STDIN", short="i"),
    _PLATFORM,
    Option("quiet", "Suppress the load output", short="q", kind="flag", default=False),
)
_PIECE = 256 * 1024


def save_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine save IMAGE...`: a file that could not be written whole is not left behind. Raises Invalid, ApiError."""
    output = given_text(given, "output")
    if not output and os.isatty(1):
        raise Invalid("cowardly refusing to save to a terminal. Use the -o flag or redirect")
    query = {"names": list(others), "platform": platform_of(given_text(given, "platform")) or None}
    with api.open("GET", "/images/get", query) as response:
        if not output:
            for piece in response.pieces():
                write_all(1, piece)
            return 0
        _into(output, response.pieces())
    return 0


def _into(output: str, pieces: Iterator[bytes]) -> None:
    """Write a file beside `output`, and give it that name when it is whole."""
    if os.path.lexists(output) and not os.path.isfile(output):
        fd = os.open(output, os.O_WRONLY | os.O_CLOEXEC)  # a pipe or a device
        with os.fdopen(fd, "wb", buffering=0):
            for piece in pieces:
                write_all(fd, piece)
        return
    directory = os.path.dirname(output) or "."
    if not os.path.isdir(directory):
        raise Invalid(f"failed to save image: invalid output path: stat {directory}: no such file or directory")
    partial = f"{output}.{os.getpid()}.part"
    fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb", buffering=0):
            for piece in pieces:
                write_all(fd, piece)
        os.rename(partial, output)
    except BaseException:
        os.unlink(partial)
        raise


def load_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine load`: show what was loaded. Raises Invalid, ApiError."""
    path = given_text(given, "input")
    if not path and os.isatty(0):
        raise Invalid("requested load from stdin, but stdin is empty")
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path else 0
    quiet = bool(given.get("quiet")) or not sys.stdout.isatty()
    platform = platform_of(given_text(given, "platform"))
    query = {"quiet": "1" if quiet else "0", "platform": platform or None}
    width = terminal_size(1) if sys.stdout.isatty() else None
    progress.show(api.progress("/images/load", query, _read(fd)), sys.stdout, width[1] if width else None)
    return 0


def _read(fd: int) -> Iterator[bytes]:
    while piece := os.read(fd, _PIECE):
        yield piece


FUNCTIONS = {"save": (save_verb, SAVE_OPTIONS), "load": (load_verb, LOAD_OPTIONS)}

"""How a process of the engine starts another one from the same files, and reads the data files among them.

Used by the daemon for a new spawner, by the demo for its daemon, by what writes units, and by the reader of seccomp's
tables. The engine may be a clone, an installed package, or the one file of `engine.onefile`.
"""

import os
import sys
from collections.abc import Iterator

from engine.annotating import Protocol


class Whole(Protocol):
    """What `engine.onefile` offers to the engine that runs from it, which tells more of each."""

    descriptor: int
    digest: str

    def path(self) -> str:
        """Where the file is by now."""

    def names(self, kind: str) -> Iterator[str]:
        """The names of its files of a kind: `s` sources, `d` data."""

    def read(self, name: str) -> bytes:
        """One file. Raises OSError, and ImportError."""

    def started(self) -> None:
        """Give back the memory that loading many modules took."""

    def close(self) -> None:
        """Load nothing any more."""


_MODULE = ("-P", "-m", "engine")  # without -P Python would look for it in the directory where a user stands
ours: Whole | None = None
"""The file that this process runs from, which puts it here; None for a clone or an installed package."""

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command(*words: str) -> list[str]:
    """The command line of `engine` with these words; it needs `environment` and `descriptors`."""
    if ours is None:
        return [sys.executable, *_MODULE, *words]
    return [sys.executable, f"/proc/self/fd/{ours.descriptor}", *words]


def environment() -> dict[str, str]:
    """The variables of this process, with those by which Python finds the same files whatever its directory is.

    Of PYTHONPATH what is relative is left out, an empty part too: to Python that is the directory where it is started.
    """
    places = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(each)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join((*(() if ours else (_ROOT,)), *places))}


def descriptors() -> tuple[int, ...]:
    """What the new process must inherit."""
    return () if ours is None else (ours.descriptor,)


def keep_to_itself() -> None:
    """Keep what this process has inherited by `descriptors` from the programs that it executes in turn."""
    for descriptor in descriptors():
        os.set_inheritable(descriptor, False)


def hand_on() -> None:
    """Let the program that this process executes in its own place inherit what this process has inherited: its command
    line may name a descriptor.
    """
    for descriptor in descriptors():
        if sys.argv[0] == f"/proc/self/fd/{descriptor}":
            os.set_inheritable(descriptor, True)


def started() -> None:
    """Say that this process, which goes on for long, has loaded most of what it needs."""
    if ours is not None:
        ours.started()


def settle() -> None:
    """Give up the engine's files: this process, and all that it forks, has loaded whatever it may need."""
    if ours is not None:
        ours.close()


def starts() -> tuple[str, ...]:
    """The words by which people and units start `engine`. Raises FileNotFoundError if the one file is gone."""
    if ours is None:
        return sys.executable, *_MODULE
    os.stat(ours.path())
    return sys.executable, ours.path()


def root() -> str | None:
    """The directory that `engine` is imported from; None for an engine in one file."""
    return _ROOT if ours is None else None


def data(name: str) -> bytes:
    """A data file of the engine, by its path below the directory of `engine`. Raises OSError."""
    if ours is not None:
        return ours.read(f"engine/{name}")
    with open(os.path.join(_ROOT, "engine", name), "rb") as file:
        return file.read()


def compiled(name: str) -> bytes | None:
    """A program for this machine that is in the one file; None where there is none, and for every other engine."""
    if ours is None:
        return None
    try:
        return ours.read(f"_muxer/targets/{os.uname().machine}/{name}")
    except FileNotFoundError:
        return None

"""Tells the operator, line by line, what is brought over, and at the end what could not be taken and why."""

import contextlib
import sys
from collections.abc import Iterator

from engine.dataclass import dataclass, field
from engine.errors import EngineError
from engine.migrate.cloning import Shared

_STEP = 256 << 20


@dataclass(slots=True)
class Telling:
    """What was told so far. taken: how many of each kind; there: of how many of them nothing had to be done

    lacking: (what, why) of each thing that was not taken, or not wholly
    """

    taken: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)
    lacking: list[tuple[str, str]] = field(default_factory=list)
    shared: int = 0
    copied: int = 0
    _told: int = 0

    def line(self, text: str) -> None:
        """Show a line at once: the next thing may take minutes."""
        print(printable(text))
        sys.stdout.flush()

    def took(self, kind: str, name: str) -> None:
        """Something was brought over."""
        self.taken[kind] = self.taken.get(kind, 0) + 1
        self.line(f"{kind} {name}")

    def found(self, kind: str, name: str) -> None:
        """Something is there already, from an earlier run or of the engine's own."""
        self.there[kind] = self.there.get(kind, 0) + 1
        self.line(f"{kind} {name}: is there already")

    def lacks(self, what: str, why: object) -> None:
        """Something was not taken, or not wholly."""
        self.lacking.append((what, str(why)))

    @contextlib.contextmanager
    def passing_over(self, what: str) -> Iterator[None]:
        """Name what the context is about, if it cannot be taken, and go on with the next.

        Another program has written its record, and a stranger may have. Whatever is wrong with it concerns it alone.
        """
        try:
            yield
        except (EngineError, OSError) as error:
            self.lacks(what, error)
        except Exception as error:
            self.lacks(what, f"its record is not of dockerd's form ({type(error).__name__}: {error})")

    def progress(self, done: Shared) -> None:
        """Show how far a large tree is, after each quarter of a gigabyte."""
        if done.size // _STEP > self._told:
            self._told = done.size // _STEP
            self.line(f"  {done.size / 1e9:.1f} GB")

    def add(self, done: Shared) -> None:
        """Count the bytes of a tree."""
        self.shared += done.shared
        self.copied += done.copied
        self._told = 0

    def end(self) -> None:
        """Show the sums, and what was not taken."""
        kinds = sorted(self.taken.keys() | self.there.keys())
        for kind in kinds:
            self.line(f"{kind}s: {self.taken.get(kind, 0)} brought over, {self.there.get(kind, 0)} there already")
        self.line(f"files: {self.copied / 1e6:.1f} MB copied, {self.shared / 1e6:.1f} MB shared with the source")
        for what, why in self.lacking:
            self.line(f"NOT TAKEN: {what}: {why}")


def printable(text: str) -> str:
    """The text without characters that a terminal would obey: names in the source are a stranger's."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)

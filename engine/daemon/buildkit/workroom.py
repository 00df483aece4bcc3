"""What all solves of one build share: what keeps its results, the cache, and a directory for intermediate files.

A build has one, made by the first call that needs it, and closed at the build's end.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator

from engine.daemon.builder import tending
from engine.daemon.builder.context import scratch
from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.results import Results
from engine.daemon.builder.graph.solver import Build, Solver, Teller, processors
from engine.daemon.builder.graph.work import Caller, Giver, Lend
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass

_MOST_HELD = 8


@dataclass(frozen=True, slots=True)
class Workroom:
    """scratch: descriptor of the directory; caller: who waits for the build; allowed: its entitlements

    lend: returns what gives what the caches have that the client has named, None while it has named none
    held: what failed commands have left, None where nobody can look at it
    """

    engine: ContainerParts
    keeper: Keeper
    results: Results
    scratch: int
    caller: Caller
    allowed: frozenset[str]
    lend: Callable[[], Lend | None]
    held: "Held | None"

    def solver(self, teller: Teller, giver: Giver | None) -> Solver:
        """A solver of nodes. giver: gives secrets and agents of the client, None for a client that cannot"""
        shared = (self.engine, self.keeper, self.results, self.scratch, self.caller)
        hold = self.held.add if self.held is not None else None
        return Solver(Build(*shared, teller, giver, self.allowed, processors(), self.lend, hold))


class Held:
    """The last few things that are dropped at the build's end. Any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drops: list[Callable[[], None]] = []

    def add(self, drop: Callable[[], None]) -> None:
        """One more, and the oldest goes where there are too many."""
        with self._lock:
            self._drops.append(drop)
            oldest = self._drops.pop(0) if len(self._drops) > _MOST_HELD else None
        if oldest is not None:
            oldest()

    def close(self) -> None:
        """All go."""
        with contextlib.ExitStack() as stack:
            for drop in self._drops:
                stack.callback(drop)


@contextlib.contextmanager
def opened(
    engine: ContainerParts, caller: Caller, allowed: frozenset[str], lend: Callable[[], Lend | None], looked_at: bool
) -> Iterator[Workroom]:
    """The workroom of one build. looked_at: what failed commands leave may be looked at while the build lasts"""
    with Keeper(engine.images, traces=True) as keeper, scratch(engine.settings.data_root) as directory:
        results, held = Results(engine.database, keeper, held=True), Held()
        try:
            yield Workroom(engine, keeper, results, directory, caller, allowed, lend, held if looked_at else None)
        finally:
            results.close()
            held.close()
    tending.begin(engine)

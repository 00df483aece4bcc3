"""What all solves of one build share: what keeps its results, the cache, and a directory for intermediate files.

A build has one, made by the first call that needs it, and closed at the build's end.
"""

import contextlib
from collections.abc import Callable, Iterator

from engine.daemon.build import tending
from engine.daemon.build.context import scratch
from engine.daemon.build.graph.keeper import Keeper
from engine.daemon.build.graph.results import Results
from engine.daemon.build.graph.solver import Build, Solver, Teller, processors
from engine.daemon.build.graph.work import Caller, Giver, Lend
from engine.daemon.parts import ContainerParts
from engine.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Workroom:
    """scratch: descriptor of the directory; caller: who waits for the build; allowed: its entitlements

    lend: returns what gives what the caches have that the client has named, None while it has named none
    """

    engine: ContainerParts
    keeper: Keeper
    results: Results
    scratch: int
    caller: Caller
    allowed: frozenset[str]
    lend: Callable[[], Lend | None]

    def solver(self, teller: Teller, giver: Giver | None) -> Solver:
        """A solver of nodes. giver: gives secrets and agents of the client, None for a client that cannot"""
        shared = (self.engine, self.keeper, self.results, self.scratch, self.caller)
        return Solver(Build(*shared, teller, giver, self.allowed, processors(), self.lend))


@contextlib.contextmanager
def opened(
    engine: ContainerParts, caller: Caller, allowed: frozenset[str], lend: Callable[[], Lend | None]
) -> Iterator[Workroom]:
    """The workroom of one build."""
    with Keeper(engine.images, traces=True) as keeper, scratch(engine.settings.data_root) as directory:
        results = Results(engine.database, keeper, held=True)
        try:
            yield Workroom(engine, keeper, results, directory, caller, allowed, lend)
        finally:
            results.close()
    tending.begin(engine)

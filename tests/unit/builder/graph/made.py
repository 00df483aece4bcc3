"""Operations that make trees without files, and builds that solve them, for the tests of the graph."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from engine.daemon.builder.graph.keeper import Keeper
from engine.daemon.builder.graph.node import Input, Node, chains, digest
from engine.daemon.builder.graph.results import Result
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.solver import Build, Teller
from engine.daemon.builder.graph.work import Caller, Work
from engine.daemon.images.layers.store import Layer
from engine.dataclass import dataclass, field
from tests.harness.parts import Parts


@dataclass(slots=True)
class Log:
    """What was made, in order, and how many were made at the same time at most."""

    made: list[str] = field(default_factory=list)
    now: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def at_work(self, name: str) -> Iterator[None]:
        """One operation is being made."""
        with self.lock:
            self.made.append(name)
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self.lock:
                self.now -= 1


def nothing(_work: Work) -> None:
    """What an operation does that only makes its tree."""


class Step:
    """An operation that adds a layer named after it to its first input, and one more output of that layer alone."""

    kind = "regular"

    def __init__(self, name: str, log: Log, does: Callable[[Work], None] = nothing, kept: bool = True) -> None:
        self.title = name
        self._log, self._does, self._kept = log, does, kept

    def key(self) -> str:
        """Its name."""
        return digest("step", self.title)

    def identity(self, _work: Work, inputs: Sequence[Snapshot]) -> str | None:
        """Its name and its inputs' contents."""
        return digest("step", self.title, chains(inputs)) if self._kept else None

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree."""
        with self._log.at_work(self.title):
            self._does(work)
        hashed = digest(self.title, chains(inputs))
        part = Part(Layer(int(hashed[:6], 16), f"sha256:{hashed}", 1), {"mediaType": "", "digest": hashed, "size": 1})
        below = inputs[0] if inputs else Snapshot()
        return below.above(part), Snapshot((part,))


def node(
    name: str, log: Log, *inputs: Node | Input, does: Callable[[Work], None] = nothing, fresh: bool = False
) -> Node:
    """A node of a `Step`."""
    given = [each if isinstance(each, Input) else each.output() for each in inputs]
    return Node(Step(name, log, does), given, fresh=fresh)


class Known:
    """Results in memory that several builds share."""

    def __init__(self) -> None:
        self.kept: dict[str, Result] = {}
        self.parents: dict[str, list[str]] = {}

    def find(self, identity: str, now: bool = False) -> Result | None:
        """What was kept."""
        return self.kept.get(identity)

    def keep(
        self, identity: str, outputs: Sequence[Snapshot], _inputs: object, _kind: str, _title: str, parents: list[str]
    ) -> Result:
        """Keep it."""
        self.kept[identity] = Result(identity, tuple(outputs), time.time_ns())
        self.parents[identity] = parents
        return self.kept[identity]


def patient() -> Caller:
    """A caller who waits for ever."""
    return Caller(lambda _descriptor: None, lambda: None, lambda: False)


def build(known: Known, most: int = 2, caller: Caller | None = None, teller: object = None) -> Build:
    """A build that makes so many nodes at once."""
    keeper: Keeper = Parts()
    return Build(Parts(), keeper, known, -1, caller or patient(), teller or Teller(), most=most)

"""The figures of one run: the data classes that hold them, their JSON, and the ratios and goals computed from them.

Pure, except for the JSON file: no clock, no process. The benchmarks' pytest process writes them; `__main__`, `table`
and `drawing` read them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from bench.cases import BEST_PEER, BY_KEY, CASES, OURS, Case, Goal

OUTPUT = Path(__file__).parent.parent / ".benchmarks"
"""Where a run is written that is not to be kept in the tree."""


class Record(Protocol):
    """A function that keeps the samples of one cell, given in the case's unit. detail: more figures, by name"""

    def __call__(self, case: str, engine: str, samples: Sequence[float], **detail: float) -> None: ...


class Grown(Protocol):
    """A function that keeps a cell of the table of growth: the row's key, how many things there are, the figure"""

    def __call__(self, row: str, size: int, value: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """The figure of one engine in one case.

    value:  the median in the case's unit; low, high: the quartiles of the samples in the same unit; samples: their
    number
    detail: more figures, by name, such as the steps of the flow
    """

    case: str
    engine: str
    value: float
    low: float
    high: float
    samples: int
    detail: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Results:
    """The results of one run.

    machine: facts about the host, by name; engines: the engines' versions, in the columns' order
    references: the names of the columns that are no engines but floors, such as `crun run`
    failures: `case engine` → why it could not be measured
    growth: of each row of the table of growth, by its key: the figure for each number of things
    """

    date: str
    machine: dict[str, str]
    engines: dict[str, str] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    growth: dict[str, dict[str, float]] = field(default_factory=dict)

    def find(self, case: str, engine: str) -> Figure | None:
        """The figure of `engine` in `case`, None when there is none."""
        return next((figure for figure in self.figures if (figure.case, figure.engine) == (case, engine)), None)

    def cases(self) -> list[Case]:
        """The cases that have a figure, in the table's order."""
        measured = {figure.case for figure in self.figures}
        return [case for case in CASES if case.key in measured]

    def advantage(self, case: str, engine: str) -> float | None:
        """How many times better ours is than `engine` in `case`; None when one of them has no figure above zero."""
        ours, theirs = self.find(case, OURS), self.find(case, engine)
        if ours is None or theirs is None or ours.value <= 0 or theirs.value <= 0:
            return None
        return BY_KEY[case].advantage(ours.value, theirs.value)

    def goal(self, case: str) -> tuple[float, bool] | None:
        """The figure that is our goal in `case`, and whether we reached it; None when it cannot be told.

        Of two goals the stricter one counts.
        """
        ours, row = self.find(case, OURS), BY_KEY[case]
        wanted = [self._limit(goal, case) for goal in (row.goal, row.besides) if goal is not None]
        limits = [limit for limit in wanted if limit is not None]
        if ours is None or not limits:
            return None
        limit = min(limits) if row.less else max(limits)
        return limit, ours.value <= limit if row.less else ours.value >= limit

    def _limit(self, goal: Goal, case: str) -> float | None:
        if not goal.of:
            return goal.value
        row = BY_KEY[goal.case or case]
        columns = [name for name in self.engines if name != OURS] if goal.of == BEST_PEER else [goal.of]
        found = [figure.value for name in columns if (figure := self.find(row.key, name)) is not None]
        if not found:
            return None
        return goal.value * (min(found) if row.less else max(found))

    def write(self, path: Path) -> None:
        """Write everything as JSON, which `read` reads."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def read(path: Path) -> Results:
    """The results in a file that `Results.write` wrote."""
    data = json.loads(path.read_text())
    return Results(**{**data, "figures": [Figure(**figure) for figure in data["figures"]]})

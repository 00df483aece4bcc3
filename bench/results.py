"""The figures of one run: the shape they are kept in, as JSON too, and what can be concluded from them.

Pure: no clock, no process. Written by the benchmarks' pytest process, read by `__main__`, `table` and `drawing`.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from bench.cases import BY_KEY, CASES, Case, Goal

OURS = "engine"
"""The column that the others are compared with."""


class Record(Protocol):
    """Keeps the samples of one cell, given in the case's unit. detail: more figures, by name"""

    def __call__(self, case: str, engine: str, samples: Sequence[float], **detail: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """What one engine reached in one case.

    value:  in the case's unit; low, high: the quartiles of the samples in the same unit; samples: how many there were
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
    """One run.

    machine: facts about the host, by name; engines: the engines' versions, in the columns' order
    references: the names of the columns that are no engines but floors, such as `crun run`
    failures: what could not be measured: `case engine` → why
    """

    date: str
    machine: dict[str, str]
    engines: dict[str, str] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def find(self, case: str, engine: str) -> Figure | None:
        """The figure of `engine` in `case`, None when there is none."""
        return next((figure for figure in self.figures if (figure.case, figure.engine) == (case, engine)), None)

    def cases(self) -> list[Case]:
        """The cases that have a figure, in the table's order."""
        measured = {figure.case for figure in self.figures}
        return [case for case in CASES if case.key in measured]

    def advantage(self, case: str, engine: str) -> float | None:
        """How many times better ours is than `engine` in `case`; None when one of them has no figure."""
        ours, theirs = self.find(case, OURS), self.find(case, engine)
        if ours is None or theirs is None or not ours.value or not theirs.value:
            return None
        return BY_KEY[case].advantage(ours.value, theirs.value)

    def goal(self, case: str) -> tuple[float, bool] | None:
        """The figure wanted of ours in `case` and whether it was reached; None when it cannot be told.

        Of two goals the one that asks for more.
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
        other = self.find(case, goal.of)
        return None if other is None else goal.value * other.value

    def write(self, path: Path) -> None:
        """Write everything as JSON, readable by `read`."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def read(path: Path) -> Results:
    """The results that `Results.write` wrote."""
    data = json.loads(path.read_text())
    return Results(**{**data, "figures": [Figure(**figure) for figure in data["figures"]]})

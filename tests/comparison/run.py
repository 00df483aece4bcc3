"""`python -m tests.comparison.run [--calls N] [--starts N] [--seed S]`: the comparison, and what differed.

Run by `python3 -m tests --long dockerd`, as root. Prints the seed; ends with status 1 when an answer differs and no
row of `differences` means it, or when a row of it was not needed in a whole run.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.__main__ import CACHE
from tests.comparison import comparing, containers, inside, things
from tests.comparison.differences import DIFFERENCES, Meant
from tests.comparison.sides import Side, Sides
from tests.comparison.step import Step, query
from tests.harness import frames
from tests.replay.compare import Departure

CALLS, STARTS = 5000, 2000
_LOOKS = 20  # at a container on both sides, until both see its end
STORIES: tuple[Callable[[Random, str], Iterator[Step]], ...] = (
    *(containers.story, containers.story, containers.story),
    *(things.network, things.volume, things.image, things.build, things.system),
)


T = TypeVar("T")


class Report:
    """What differed, and which rows of the table were needed."""

    def __init__(self) -> None:
        self.needed: set[Meant] = set()
        self.unmeant: Counter[tuple[str, Departure]] = Counter()
        self.first: dict[tuple[str, Departure], str] = {}

    def take(self, operation: str, found: Departure, example: str) -> None:
        """One departure; example: how to see it again."""
        rows = [row for row in DIFFERENCES if row.covers(operation, found)]
        self.needed.update(rows)
        if not rows:
            key = (operation, found)
            self.unmeant[key] += 1
            self.first.setdefault(key, example)

    def show(self) -> None:
        """Every departure that no row means, the most frequent first."""
        for (operation, found), times in self.unmeant.most_common():
            print(f"{times:5} {operation}  {found.what} {found.where}\n      {found.how}")
            print(f"      {self.first[operation, found]}")


def generalized(path: str, label: str) -> str:
    """A path without the names of one sequence, so that equal departures are one."""
    return path.replace(label, "NAME")


Both = Callable[..., tuple]
"""Has both sides do one thing at a time, since dockerd waits a quarter of a minute for a plugin that is not there."""


def rest(both: Both, step: Step) -> None:
    """Wait for the end of what a step has begun, on both sides: a busy dockerd is told of an end a little later."""
    time.sleep(step.rest)
    shown = Step("GET", f"{step.path.rpartition('/')[0]}/json")
    for _ in range(_LOOKS if step.rest else 0):
        states = [json.loads(answer.body).get("State", {}).get("Running") for answer in both(Side.send, shown)]
        if states[0] == states[1]:
            return
        time.sleep(step.rest)


def compare_calls(both: Both, report: Report, seed: str, number: int) -> int:
    """Sequences of at least so many calls; how many were sent."""
    sent = sequence = 0
    while sent < number:
        label = f"c{sequence}"
        chance = Random(f"{seed}/{sequence}")
        for step in STORIES[sequence % len(STORIES)](chance, label):
            theirs, ours = both(Side.send, step)
            rest(both, step)
            sent += 1
            for found in comparing.departures(step, theirs, ours):
                neutral = Departure(found.what, generalized(found.where, label), generalized(found.how, label))
                body = "" if isinstance(step.body, bytes) else f" {step.body}"
                example = f"sequence {sequence}: {step.method} {step.path}{body}"[:500]
                report.take(generalized(step.operation, label), neutral, example)
            if theirs.status != ours.status and "create" in step.path:
                break  # all that follows would differ
        both(Side.clean, label)
        sequence += 1
    return sent


def started(side: Side, body: dict) -> tuple[str, str]:
    """What became of a container from create to its end: the answers in short, and what it said."""
    name = "started"
    answers = [side.send(Step("POST", query("/containers/create", name=name), body))]
    if answers[0].status == 201:
        answers.append(side.send(Step("POST", f"/containers/{name}/start")))
    said = ""
    if answers[-1].status == 204:
        answers.append(side.send(Step("POST", f"/containers/{name}/wait")))
        log = side.send(Step("GET", f"/containers/{name}/logs?stdout=1&stderr=1"))
        said = (log.body if body.get("Tty") else frames.stdout(log.body)).decode(errors="replace")
    if answers[0].status == 201:
        side.send(Step("DELETE", f"/containers/{name}?force=1&v=1"))
    return " ".join(
        comparing.neutral(f"{one.status} {one.body.decode(errors='replace').strip()}") for one in answers
    ), said


def compare_starts(both: Both, report: Report, seed: str, number: int) -> None:
    """So many containers with any fields, and what each saw."""
    for each in range(number):
        body = inside.body(Random(f"{seed}/start/{each}"))
        (theirs, they_saw), (ours, we_saw) = both(started, body)
        shown = {key: value for key, value in body.items() if key not in ("Cmd", "Entrypoint", "Image")}
        example = f"start {each}: {shown}"[:500]
        if theirs != ours:
            report.take("start", Departure("answers", "", f"{theirs!r}, ours {ours!r}"), example)
        for found in inside.departures(they_saw, we_saw):
            report.take("start", found, example)


def main() -> int:
    """Compare; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.comparison.run", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--starts", type=int, default=STARTS)
    parser.add_argument("--seed", default=str(int(time.time())))
    asked = parser.parse_args()
    print(f"comparison: seed {asked.seed}", flush=True)
    report = Report()
    with Sides(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")), CACHE) as sides, ThreadPoolExecutor(2) as threads:

        def both(deed: Callable[..., T], *about: object) -> tuple[T, ...]:
            return tuple(threads.map(lambda side: deed(side, *about), sides.both))

        sent = compare_calls(both, report, asked.seed, asked.calls)
        compare_starts(both, report, asked.seed, asked.starts)
    report.show()
    whole = asked.calls >= CALLS and asked.starts >= STARTS
    unneeded = [row for row in DIFFERENCES if row not in report.needed] if whole else []
    for row in unneeded:
        print(f"no answer needs the row: {row}")
    kinds = len(report.unmeant)
    print(
        f"comparison: seed {asked.seed}, {sent} calls, {asked.starts} starts, {len(DIFFERENCES)} rows; {kinds} unmeant"
    )
    return 1 if kinds or unneeded else 0


if __name__ == "__main__":
    sys.exit(main())

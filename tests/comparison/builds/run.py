"""`python -m tests.comparison.builds.run [--builds N] [--seed S] [--record FILE]`: the comparison, and what differed.

Run by `python3 -m tests --long buildkit`, as root. Prints the seed; ends with status 1 when a build differs and no row
of `differences` means it, or when a row was not needed in a whole run. `--record tests/data/builds.json` keeps what
buildkitd gave to some of the builds that both made alike, for the short form, which has no buildkitd.
"""

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.__main__ import CACHE
from tests.comparison.builds import comparing, grammar, recorded
from tests.comparison.builds.case import Case
from tests.comparison.builds.differences import DIFFERENCES, Meant
from tests.comparison.builds.sides import Sides
from tests.replay.compare import Departure

BUILDS = 2000
AT_ONCE = 3
# What is put for another word in two departures of one kind.
VARIABLE = re.compile(r"'[^']*'|\"[^\"]*\"|sha256:\w+|\b[0-9a-z]*\d[0-9a-z]*\b|[\w.*]*/\S*")


class Report:
    """What differed, by its kind, and which rows of the table were needed."""

    def __init__(self) -> None:
        self.needed: set[Meant] = set()
        self.unmeant: Counter[tuple[str, str, str]] = Counter()
        self.first: dict[tuple[str, str, str], tuple[Departure, str]] = {}
        self.equal = self.failed = 0

    def take(self, found: list[Departure], example: str) -> None:
        """The departures of one build; each kind counts once."""
        kinds = set()
        for each in found:
            rows = [row for row in DIFFERENCES if row.covers(each)]
            self.needed.update(rows)
            if not rows:
                kind = (each.what, each.where, self.kind(each))
                kinds.add(kind)
                self.first.setdefault(kind, (each, example))
        self.unmeant.update(kinds)
        self.equal += not kinds

    @staticmethod
    def kind(found: Departure) -> str:
        """What is the same in departures of one cause: the words without names, where there are words."""
        if found.what.endswith(" alone") and found.where == "entry":
            return found.how.partition(", 'mode'")[0]
        told = found.what in ("status", "error") or found.where in comparing.IN_TURN
        return VARIABLE.sub("_", found.how)[:200] if told else ""

    def show(self) -> str:
        """Every kind that no row means, the most frequent first, with an example."""
        lines = []
        for kind, times in self.unmeant.most_common():
            found, example = self.first[kind]
            lines += [f"== {times} x {found.what} {found.where}: {found.how[:900]}", example, ""]
        return "\n".join(lines)


def compared(sides: Sides, number: int, case: Case) -> tuple[int, Case, list[dict]]:
    """Both outcomes of one build, made at once."""
    context = sides.context(case, str(number))
    with ThreadPoolExecutor(2) as threads:
        return number, case, list(threads.map(lambda side: side.build(case, context), sides.both))


def main() -> int:
    """Compare; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.comparison.builds.run", description=__doc__.splitlines()[0])
    parser.add_argument("--builds", type=int, default=BUILDS)
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--only", type=int, help="the one build of that number")
    parser.add_argument("--report", type=Path, help="a file for what differed, beside the output")
    parser.add_argument("--record", type=Path, help="a file for what buildkitd gave to builds that both make alike")
    asked = parser.parse_args()
    print(f"builds: seed {asked.seed}", flush=True)
    recording = recorded.Recording() if asked.record else None
    report, begun = Report(), time.monotonic()
    numbers = range(asked.builds) if asked.only is None else [asked.only]
    cases = [(number, grammar.case(Random(f"{asked.seed}/{number}"))) for number in numbers]
    outcomes: Counter[str] = Counter()
    with (
        Sides(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")), CACHE, recording is None) as sides,
        ThreadPoolExecutor(AT_ONCE) as many,
    ):
        for number, case, (theirs, ours) in many.map(lambda each: compared(sides, *each), cases):
            outcomes[theirs["status"]] += 1
            found = comparing.departures(theirs, ours)
            report.take(found, f"build {number}:\n{case.shown()}")
            if recording is not None and not found:
                recording.take(case, theirs)
            if asked.report and number % 20 == 19:
                asked.report.write_text(report.show())
    if recording is not None:
        recording.write(asked.record)
    shown = report.show()
    print(shown)
    minutes = (time.monotonic() - begun) / 60
    unneeded = [row for row in DIFFERENCES if row not in report.needed] if len(cases) >= BUILDS else []
    for row in unneeded:
        print(f"no build needs the row: {row}")
    end = f"builds: seed {asked.seed}, {len(cases)} builds ({dict(outcomes)}), {len(cases) / minutes:.0f} a minute; "
    end += f"{report.equal} equal, {len(report.unmeant)} kinds of differences unmeant"
    print(end)
    if asked.report:
        asked.report.write_text(f"{end}\n\n{shown}")
    return 1 if report.unmeant or unneeded else 0


if __name__ == "__main__":
    sys.exit(main())

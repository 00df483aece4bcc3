"""The command `python3 -m bench.timeline` draws every process of one container's life on one line of time.

It starts an engine of its own, runs the flow of `flow` some times while perf(1) records the scheduler, and takes
the flow whose length is the median. It writes .benchmarks/flow.svg (`--output`) and prints what each process took. It
needs root and perf, and whatever the bench needs.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench import image, lanes, peers, results, switches
from bench.flow import STEPS, Flow
from bench.lanes import Lane
from bench.peers import Daemon, Peer

WARMUP = 10
FLOWS = 41
PAUSE = 0.05  # between two flows, so that each finds the engine at rest

Marks = list[tuple[str, float]]
"""The name and the beginning of each step of a flow, and of its end, whose name is empty."""


def main(arguments: list[str]) -> int:
    """Record, choose, draw and print. Returns the exit status."""
    options = argparse.ArgumentParser(prog="python3 -m bench.timeline", description=__doc__.split("\n")[0])
    options.add_argument("--network", default="none", choices=("none", "host", "bridge"), help="of the container")
    options.add_argument("--pure", action="store_true", help="an engine without its C part")
    options.add_argument("--output", type=Path, default=results.OUTPUT / "flow.svg", help="the file written")
    chosen = options.parse_args(arguments)
    if os.geteuid() != 0 or shutil.which("perf") is None:
        options.error("root and perf are needed")
    workshop = Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    try:
        picture, table = draw(workshop, chosen.network, peers.PURE if chosen.pure else peers.BY_NAME["engine"])
    finally:
        shutil.rmtree(workshop)
    chosen.output.parent.mkdir(parents=True, exist_ok=True)
    chosen.output.write_text(picture)
    print(f"{table}\nwritten: {chosen.output}")
    return 0


def draw(workshop: Path, network: str, peer: Peer) -> tuple[str, str]:
    """The picture of the flow in the middle, and its lines as text."""
    daemon = Daemon(peer, workshop / "engine")
    try:
        daemon.give_image(image.make(workshop))
        marks: list[Marks] = []
        with daemon.connect() as connection:
            flow = Flow(connection, network)
            for _ in range(WARMUP):
                flow()
            ours = _threads(daemon)
            recorded = switches.record(lambda: marks.extend(_timed(flow) for _ in range(FLOWS)), workshop)
    finally:
        daemon.close()
    middle = sorted(marks, key=lambda each: each[-1][1] - each[0][1])[len(marks) // 2]
    drawn = of(recorded, ours, middle)
    took = (middle[-1][1] - middle[0][1]) * 1e3
    title = f"One container's life, network {network}: {took:.2f} ms"
    lines = [f"{lane.busy(middle[0][1], middle[-1][1]) * 1e3:8.2f} ms  {lane.name}" for lane in drawn]
    return lanes.svg(title, "create, start, wait, logs, delete of `echo hello`", drawn, middle), "\n".join(lines)


def _timed(flow: Flow) -> Marks:
    time.sleep(PAUSE)
    moment = time.monotonic()
    flow()
    marks = []
    for step in STEPS:
        marks.append((step, moment))
        moment += flow.steps[step][-1]
    return [*marks, ("", moment)]


def _threads(daemon: Daemon) -> set[int]:
    """All tasks of the engine."""
    found: set[int] = set()
    for pid in daemon.isolated.members():
        with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
            found.update(int(each.name) for each in Path(f"/proc/{pid}/task").iterdir())
    return found


def of(recorded: switches.Recorded, ours: set[int], marks: Sequence[tuple[str, float]]) -> list[Lane]:
    """The lanes of what ran between the marks: the client, the engine's tasks by their first turn, and all
    others in one.

    ours: the tasks that the engine had before
    """
    first, last = marks[0][1], marks[-1][1]
    within = [turn for turn in recorded.turns if turn.last > first and turn.first < last]
    engine, client = recorded.descendants(ours), threading.get_native_id()
    by_task: dict[int, list[switches.Turn]] = {}
    for turn in within:
        by_task.setdefault(turn.task if turn.task in engine or turn.task == client else 0, []).append(turn)
    others, own = by_task.pop(0, []), by_task.pop(client, [])
    found = [
        Lane(name(turns, *recorded.programs.get(task, ("", last)), last), turns, "ours")
        for task, turns in by_task.items()
    ]
    return [Lane("client", own, "peer"), *found, Lane("other programs", others, "floor")]


def name(turns: Sequence[switches.Turn], program: str, executed: float, last: float) -> str:
    """The last two names that a task had until then, without the word engine.

    program, executed: what it executed, and when
    """
    names = list(dict.fromkeys(turn.name.removeprefix("engine ") for turn in turns))
    if executed < last and names[-1] != Path(program).name[:15]:
        names.append(Path(program).name)
    return " → ".join(names[-2:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

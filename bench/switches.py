"""Which task ran when: records the kernel's scheduler with perf(1), and reads what it printed.

`record` runs in the benchmarks' process, as root; `parse` is pure. The times are those of CLOCK_MONOTONIC, in seconds,
so they can be compared with time.monotonic().
"""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

EVENTS = ("sched:sched_switch", "sched:sched_process_fork", "sched:sched_process_exec")
_LINE = re.compile(r"\[(?P<cpu>\d+)\]\s+(?P<time>\d+\.\d+):\s+sched:(?P<event>\w+):\s+(?P<words>.*)$")
_SWITCH = re.compile(r"prev_comm=(.*) prev_pid=(\d+) .* ==> next_comm=(.*) next_pid=(\d+) ")
_FORK = re.compile(r"comm=(.*) pid=(\d+) child_comm=(.*) child_pid=(\d+)")
_EXEC = re.compile(r"filename=(.*) pid=(\d+) old_pid=\d+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One time on a processor: of which task (a thread's id), under which name, from when to when."""

    task: int
    name: str
    cpu: int
    first: float
    last: float


@dataclass(slots=True)
class Recorded:
    """All turns in the order of their ends.

    parents: the task that made each new task; programs: the path of the program that a task executed last, and when
    """

    turns: list[Turn] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)
    programs: dict[int, tuple[str, float]] = field(default_factory=dict)

    def descendants(self, tasks: Iterable[int]) -> set[int]:
        """These tasks and all that they made while it was recorded, at any remove."""
        found = set(tasks)
        for child, parent in self.parents.items():  # a parent is recorded before its child makes children
            if parent in found:
                found.add(child)
        return found


def record(action: Callable[[], None], directory: Path) -> Recorded:
    """Do it, and return who ran meanwhile. Raises OSError with perf's words where it cannot record."""
    data = directory / "perf.data"
    # perf says on its control descriptors that it has begun: what is done before is not recorded.
    command = ["perf", "record", "--quiet", "--all-cpus", "--clockid", "CLOCK_MONOTONIC", "--delay", "-1"]
    control, acknowledged = directory / "control", directory / "acknowledged"
    for fifo in (control, acknowledged):
        subprocess.run(["mkfifo", str(fifo)], check=True)
    command += ["--control", f"fifo:{control},{acknowledged}", "--event", ",".join(EVENTS), "--output", str(data)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as perf:
        try:
            with control.open("w", buffering=1) as orders, acknowledged.open() as answers:
                for order in ("enable", "stop"):
                    orders.write(f"{order}\n")
                    answers.readline()
                    if order == "enable":
                        action()
            said = perf.communicate(timeout=30)[1]
        except BaseException:
            perf.kill()
            raise
    if perf.returncode:
        raise OSError(f"perf record: {said.strip()}")
    printed = subprocess.run(
        ["perf", "script", "--input", str(data)], capture_output=True, text=True, check=True
    ).stdout
    return parse(printed.splitlines())


def parse(lines: Iterable[str]) -> Recorded:
    """What perf-script(1) prints of `EVENTS`; other lines are passed over."""
    recorded = Recorded()
    began: dict[int, float] = {}
    for cpu, time, event, words in _events(lines):
        if event == "sched_switch" and (found := _SWITCH.search(words)):
            name, task = found[1], int(found[2])
            if task and cpu in began:
                recorded.turns.append(Turn(task, name, cpu, began[cpu], time))
            began[cpu] = time
        elif event == "sched_process_fork" and (found := _FORK.search(words)):
            recorded.parents[int(found[4])] = int(found[2])
        elif event == "sched_process_exec" and (found := _EXEC.search(words)):
            recorded.programs[int(found[2])] = found[1], time
    return recorded


def _events(lines: Iterable[str]) -> Iterator[tuple[int, float, str, str]]:
    for line in lines:
        if found := _LINE.search(line):
            yield int(found["cpu"]), float(found["time"]), found["event"], found["words"]

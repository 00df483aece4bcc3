"""GET /containers/{id}/top: the container's processes, as ps would show them."""

import os
import shutil
import subprocess
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.harness.daemon import Daemon
from tests.harness.http import Answer
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

FULL = ["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"]
WIDE = {**os.environ, "COLUMNS": "9999"}
# Every field that ps and the engine have, but for those that change from one look to the next.
STEADY = (
    *("args", "bsdstart", "class", "cls", "cmd", "comm", "command", "egid", "egroup", "euid", "euser", "f", "flag"),
    *("flags", "fname", "fuid", "fuser", "gid", "group", "lstart", "ni", "nice", "nlwp", "opri", "pgid", "pgrp"),
    *("policy", "ppid", "pri", "priority", "rgid", "rgroup", "rss", "rssize", "rsz", "rtprio", "ruid", "ruser", "s"),
    *("sched", "sess", "session", "sid", "start", "start_time", "stat", "state", "stime", "suid", "suser", "sz"),
    *("tgid", "thcount", "tname", "tpgid", "tt", "tty", "ucmd", "ucomm", "uid", "uname", "user", "vsize", "vsz"),
    *("drs", "trs", "maj_flt", "majflt", "cputime", "cputimes", "time", "times", "bsdtime", "wchan"),
)


def top(daemon: Daemon, container: str, arguments: str | None = None, **options: object) -> Answer:
    """The call."""
    query = "" if arguments is None else f"?ps_args={quote(arguments)}"
    return daemon.request("GET", f"/containers/{container}/top{query}", **options)


def shown(daemon: Daemon, container: str, arguments: str | None = None) -> list[dict[str, str]]:
    """The processes, each by titles."""
    answer = top(daemon, container, arguments)
    assert answer.status == 200, answer
    found = answer.json()
    return [dict(zip(found["Titles"], row, strict=True)) for row in found["Processes"]]


def begun(daemon: Daemon, one: str) -> list[dict[str, str]]:
    """Start a container with a shell and a sleeping child; both of them."""
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))
    # The child is there before it is the program that it becomes.
    until(lambda: "sleep 77" in [row["CMD"] for row in shown(daemon, one)])
    until(lambda: {row["S"] for row in shown(daemon, one, "-o pid,s")} == {"S"})
    return shown(daemon, one)


@pytest.fixture
def quiet(daemon: Daemon, container: Callable[..., str]) -> str:
    """A running container with a shell and a sleeping child, whose number is the larger one, as it nearly always is.

    Behind its largest number the kernel begins anew, and processes are listed by their numbers.
    """
    for _ in range(2):
        one = container("sh", "-c", "sleep 77 & echo ready; wait", User="65534")
        if begun(daemon, one)[-1]["CMD"] == "sleep 77":
            break
    return one


def test_all_of_it_without_arguments(daemon: Daemon, quiet: str) -> None:
    """It is what `ps -ef` shows, with the pids of the host."""
    answer = top(daemon, quiet)
    assert answer.json()["Titles"] == FULL
    shell, child = shown(daemon, quiet)
    assert int(shell["PID"]) == daemon.inspect(quiet)["State"]["Pid"]
    assert (child["PPID"], child["CMD"], child["TTY"]) == (shell["PID"], "sleep 77", "?")
    assert shell["CMD"] == "sh -c sleep 77 & echo ready; wait"
    assert shell["UID"] == "nobody" and shell["TIME"] == "00:00:00"


def test_aux(daemon: Daemon, quiet: str) -> None:
    """In the other syntax, with and without a dash."""
    for arguments in ("aux", "-aux", "auxww"):
        shell, _ = shown(daemon, quiet, arguments)
        assert list(shell) == [
            *("USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND")
        ]
        assert shell["STAT"].startswith("S") and int(shell["RSS"]) > 0


def test_columns_of_ones_own(daemon: Daemon, quiet: str) -> None:
    """In any order, renamed, sorted, as a tree."""
    first, second = shown(daemon, quiet, "-eo pid,comm=WHAT,etimes --sort=-pid")
    assert (first["WHAT"], second["WHAT"]) == ("sleep", "sh") and int(first["ELAPSED"]) < 60
    assert [list(row) for row in shown(daemon, quiet, "o user,pid")] == [["USER", "PID"]] * 2
    assert [row["COMMAND"] for row in shown(daemon, quiet, "axf")][1] == "\\_ sleep 77"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-o comm", "Couldn't find PID field in ps output"),
        ("-o pid=X,comm", "Couldn't find PID field in ps output"),
        ("-ef --no-headers", "Couldn't find PID field in ps output"),
        ("-o pid,nope", 'error: unknown user-defined format specifier "nope"'),
        ("--foo", "error: unknown gnu long option"),
        ("Q", "error: unsupported option (BSD syntax)"),
        ("-o uid=PID", 'specifying "uid=PID" is not allowed'),
    ],
)
def test_what_ps_would_not_do_is_said_in_its_words(daemon: Daemon, quiet: str, arguments: str, words: str) -> None:
    """With docker's status."""
    answer = top(daemon, quiet, arguments)
    assert (answer.status, answer.message) == (500, words)


def test_what_does_not_run_has_no_processes(daemon: Daemon, container: Callable[..., str]) -> None:
    """Nor what is not there."""
    one = container("true")
    answer = top(daemon, one)
    assert (answer.status, answer.message) == (409, f"container {one} is not running")
    assert top(daemon, "nope").status == 404


def test_processes_of_cgroups_below_are_shown(daemon: Daemon, quiet: str) -> None:
    """Such as a manager of services inside the container makes."""
    pid = int(shown(daemon, quiet)[1]["PID"])
    with open(f"/proc/{pid}/cgroup") as file:
        rows = [line.strip().split(":", 2) for line in file]
    # The first with a controller, in the order of the hierarchies' names, is where the engine looks.
    with_controllers = [(names, path) for _, names, path in rows if names and "=" not in names]
    name, path = sorted((names, path) for names, path in with_controllers if quiet in path)[0]
    below = f"/sys/fs/cgroup/{name}{path}/below"
    os.mkdir(below)
    try:
        with open(f"{below}/cgroup.procs", "w") as file:
            file.write(str(pid))
        assert len(shown(daemon, quiet)) == 2
    finally:
        with open(f"/sys/fs/cgroup/{name}{path}/cgroup.procs", "w") as file:
            file.write(str(pid))
        os.rmdir(below)


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs procps: apt-get install procps")
def test_the_values_are_those_of_ps(daemon: Daemon, quiet: str) -> None:
    """Field by field, and the formats as a whole."""
    pids = [row["PID"] for row in shown(daemon, quiet)]
    for arguments in (
        *(f"-o pid,{name}" for name in STEADY),
        "-ef",
        "-F",
        "-j",
        "-fj",
        "l",
        "j",
        "-l",
        "-lf",
        "x",
        "v",
    ):
        said = subprocess.run(
            ["ps", *arguments.split(), "-q", ",".join(pids)], capture_output=True, text=True, env=WIDE
        )
        if said.returncode:
            continue  # a ps without this field
        titles, *rows = [line.split() for line in said.stdout.splitlines()]
        answer = top(daemon, quiet, arguments)
        assert answer.status == 200, (arguments, answer)
        ours = answer.json()
        assert ours["Titles"] == titles, arguments
        for row, words in zip(ours["Processes"], rows, strict=True):
            skipped = {titles.index(name) for name in ("C", "PSR", "WCHAN") if name in titles and arguments[:2] != "-o"}
            theirs = [*words[: len(titles) - 1], " ".join(words[len(titles) - 1 :])]
            assert [w for n, w in enumerate(row) if n not in skipped] == [
                w for n, w in enumerate(theirs) if n not in skipped
            ], arguments

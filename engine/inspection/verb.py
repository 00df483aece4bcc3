"""`engine inspect-processes`: reads the command line, and prints the processes with what each of them holds.

Runs in a process of its own, for an operator. It speaks to no daemon, so it works when that hangs or has died.
"""

from collections import Counter

from engine.commandline import Given, Option, given_text
from engine.errors import Invalid, NotFound
from engine.inspection import procfs, tree
from engine.settings.every import OPTIONS
from engine.tool import Tool

_DIGITS = 12
_COLUMNS = ("PID", "PROCESS", "CONTAINER", "AGE", "PSS", "THREADS", "DESCRIPTORS", "WAITS IN")


def _exec_root(given: Given) -> str:
    """The exec root that is meant. Raises NotFound, Invalid."""
    if root := given_text(given, "exec-root"):
        return root
    pidfile = given_text(given, "pidfile")
    if not pidfile:
        return next(option.default_shown for option in OPTIONS if option.name == "exec-root")
    try:
        found = tree.of_pidfile(pidfile)
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read a process id from {pidfile}: {error}") from error
    if found is None:
        raise NotFound(f"the process of {pidfile} is not a running daemon: give its --exec-root")
    return found


def text(found: tree.Tree) -> str:
    """The tree as a table. Raises NotFound when there is no process of such an engine."""
    if not found.rows:
        raise NotFound("found no process of an engine with this exec root")
    lines = [_COLUMNS, *(_line(row, found) for row in found.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS) - 1)]
    padded = ([*(map(str.ljust, line, widths)), line[-1]] for line in lines)
    shown = ["  ".join(cells) for cells in padded]
    if found.daemon is None:
        shown.insert(0, "No daemon runs; the processes that it left behind work without one.")
    return "".join(f"{line.rstrip()}\n" for line in shown)


def _line(row: tree.Row, found: tree.Tree) -> tuple[str, ...]:
    held = procfs.holding(row.brief.pid)
    container = row.container[:_DIGITS]
    if name := found.names.get(row.container):
        container += f" {name}"
    return (
        str(row.brief.pid),
        "  " * row.depth + printable(row.brief.name),
        container,
        _age(procfs.age(row.brief.start)),
        f"{held.pss / 1e6:.1f} MB",
        str(held.threads),
        _counted(held.descriptors),
        _counted(held.waits, "x "),
    )


def printable(name: str) -> str:
    """A command's name, which a container chooses as it likes, without what a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in name)


def _counted(counts: Counter[str], between: str = " ") -> str:
    """`3 sockets, 1 pipes`, or `2x do_epoll_wait`; most frequent first."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{count}{between}{printable(what)}" for what, count in ordered) or "-"


def _age(seconds: float) -> str:
    """`12s`, `3m04s`, `5h06m`, `7d08h`."""
    whole = int(seconds)
    for unit, size, smaller, step in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // step:02}{smaller}"
    return f"{whole}s"


def _show(given: Given) -> None:
    print(text(tree.find(_exec_root(given))), end="")


_OPTIONS = (
    Option("exec-root", "The daemon's directory of sockets and state", value="DIR"),
    Option("pidfile", "File that holds the daemon's process id, to find that directory by", short="p", value="FILE"),
)
TOOL = Tool(
    "inspect-processes",
    "Show the processes of an engine and what each holds, from /proc alone: the daemon may hang or be dead",
    _OPTIONS,
    _show,
)
main, usage = TOOL.main, TOOL.usage

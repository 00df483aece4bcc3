"""`engine check`: reads the command line, runs all probes, and prints what the host has and lacks.

Runs in a process of its own, for an operator. It speaks to no daemon and changes nothing on the host.
"""

import functools
import json
import os
import sys
import textwrap
from collections.abc import Sequence

from engine.check import isolation, limiting, storing, tools, traffic, trial, unprivileged
from engine.check.row import MISSING, OK, UNKNOWN, UNUSED, Check, Found
from engine.errors import EngineError
from engine.settings.advertised import VERSION
from engine.settings.every import Settings, from_arguments

CHECKS = (*isolation.CHECKS, *unprivileged.CHECKS, *limiting.CHECKS, *traffic.CHECKS, *storing.CHECKS, *tools.CHECKS)
"""Every row, in the order in which they are printed."""
_OWN = frozenset({"--json", "--help", "-h"})
_SHOWN = {OK: "ok", UNUSED: "-", MISSING: "MISSING", UNKNOWN: "unknown"}
_WIDTH = 100
_CONFIGURATION = Check(
    "configuration",
    lambda _: Found(OK, "readable"),
    "The daemon refuses to start. The other rows are about the default settings.",
    "Correct the named option",
    essential=True,
)

Row = tuple[Check, Found]


def main(words: Sequence[str]) -> int:
    """Print the rows; returns the exit status: 0 when containers can run as usual, 1 when something essential for that
    is missing.

    words: `--json`, and options of the daemon that is to run here
    """
    if "--help" in words or "-h" in words:
        print(usage(), end="")
        return 0
    rows = look([word for word in words if word not in _OWN])
    print(as_json(rows) if "--json" in words else as_text(rows), end="")
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who read has seen enough
    return 0 if ready(rows) else 1


def usage() -> str:
    """The help text."""
    return """Usage: engine check [--json] [OPTIONS OF THE DAEMON]

Show what this host has and lacks for the engine, what the engine does without
it, and what mends it. It changes nothing, and asks no daemon. Give it the
options that the daemon is to have (see 'engine daemon --help'); it reads the
configuration file too.

The exit status is 0 when containers can run as usual, and 1 when something
essential is missing.

Options:
      --json   Print one JSON object instead (see engine/README.md)
      --help   Show this text
"""


def look(words: Sequence[str]) -> list[Row]:
    """All rows with what their probes have found, for a daemon with these options."""
    rows: list[Row] = []
    unprivileged.move()
    try:
        settings = from_arguments(words)
        rows.append((_CONFIGURATION, _CONFIGURATION.probe(settings)))
    except EngineError as error:
        rows.append((_CONFIGURATION, Found(MISSING, str(error))))
        settings = from_arguments(["--config-file", os.devnull])
    return [*rows, *((check, _tried(check, settings)) for check in CHECKS)]


def _tried(check: Check, settings: Settings) -> Found:
    return trial.run(functools.partial(check.probe, settings))


def lacks(row: Row) -> bool:
    """Whether containers cannot run as usual because of this row."""
    check, found = row
    return check.essential and found.state in (MISSING, UNKNOWN)


def ready(rows: Sequence[Row]) -> bool:
    """Whether containers can run as usual."""
    return not any(map(lacks, rows))


def as_json(rows: Sequence[Row]) -> str:
    """The rows as one JSON object; its form stands in engine/README.md."""
    checks = [
        {
            "name": check.name,
            "state": found.state,
            "essential": check.essential,
            "found": found.text,
            "without": check.without,
            "mend": check.mend,
        }
        for check, found in rows
    ]
    return json.dumps({"version": VERSION, "ready": ready(rows), "checks": checks}, indent=2) + "\n"


def as_text(rows: Sequence[Row]) -> str:
    """The rows as lines for a reader; what is missing says what the engine does, and what mends it."""
    margin = max(len(check.name) for check, _ in rows) + 2
    lines = []
    for check, found in rows:
        begin = f"{_SHOWN[found.state]:<9}{check.name:<{margin}}"
        lines += _folded(begin, found.text, len(begin))
        if found.state in (MISSING, UNKNOWN):
            lines += _folded("", f"Without it: {check.without}", 9) if check.without else []
            lines += _folded("", f"To mend it: {check.mend}", 9) if check.mend else []
    names = [row[0].name for row in rows if lacks(row)]
    lines += ["", f"Containers cannot run as usual: {', '.join(names)}." if names else "Containers can run as usual."]
    return "\n".join(lines) + "\n"


def _folded(begin: str, text: str, indent: int) -> list[str]:
    blank = " " * indent
    folding = textwrap.TextWrapper(
        _WIDTH, initial_indent=begin or blank, subsequent_indent=blank, break_on_hyphens=False, break_long_words=False
    )
    return folding.wrap("".join(each if each.isprintable() else " " for each in text)) or [begin]

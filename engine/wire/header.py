"""Writes `_muxer/wire.h`, the parts of the messages that C has to know, from their Python declarations.

Run as `python3 -m engine.wire.header`, a developer's tool that no process of the engine loads. The header holds the
first byte of each datagram that C looks at, the sizes in those that C reads, the messages that C writes itself, with
gaps for printf(3), and the words for errors. A test compares the file with what is made here.
"""

import ast
import errno
import inspect
import sys
from pathlib import Path

from engine.dataclass import asdict
from engine.kernel import reasons
from engine.logs import compress, order
from engine.sandbox import plan
from engine.wire import channel, codec, endpoint, leads, report, schema, waits
from engine.wire.schema import Message

HEADER = Path(__file__).resolve().parents[2] / "_muxer" / "wire.h"
WORDS = {
    "what the spawner is asked for": {
        "ORDINARY": channel.ORDINARY["Start"],
        "EXEC": channel.ORDINARY["Exec"],
        "BIRTH": channel.BIRTH,
        "BIRTH_ANEW": channel.BIRTH_ANEW,
        "EXEC_BIRTH": channel.EXEC_BIRTH,
        "EXEC_BIRTH_ANEW": channel.EXEC_BIRTH_ANEW,
        "RESOLVER": channel.BE_RESOLVER,
        "PROXY": channel.BE_PROXY,
        "TRANSPARENT_PROXY": channel.BE_TRANSPARENT_PROXY,
    },
    "what a daemon says to a monitor beside messages": {
        "WAITS": waits.WAITS,
        "ANSWERED": waits.ANSWERED,
        "SETTLED": waits.SETTLED,
        "REMOVED": waits.REMOVED,
        "HOME": endpoint.HOME,
    },
    "what a daemon and the proxy say to each other": {
        "LEADS_LEADS": leads.LEADS,
        "LEADS_DROPS": leads.DROPS,
        "LEADS_TELLS": leads.TELLS,
        "LEADS_ANSWERS": leads.ANSWERS,
        "LEADS_GREETS": leads.GREETS,
    },
    "what a container's init and its monitor say to each other": {"READY": report.READY, "PROCEEDS": report.PROCEED},
    "what a joiner, and the process that it makes, say to the keeper": {
        "BORN": report.BORN,
        "EXECUTED": report.EXECUTED,
        "TERMINAL": report.TERMINAL,
        "FAILED": report.FAILED,
        "WARNED": report.WARNED,
    },
}
"""The first bytes of datagrams, by their purpose and by their names in C."""
SIZES = {
    "WAIT_HEAD": waits.HEAD_SIZE,
    "EXIT_DIGITS": waits.DIGITS,
    "REPORT": report.LARGEST,
    "LEADS_HEAD": leads.HEAD_SIZE,
    "LEADS_RECORD": leads.RECORD_SIZE,
}
"""Sizes in bytes, by their names in C."""
NUMBERS = {"LEADS_FORM": leads.FORM, "LEADS_MOST": leads.MOST}
"""Other numbers, by their names in C."""
_GAP = 1 << 40  # no field is this large, and each gap has another number
_WORD, _LIST = "<text>", "<list>"  # gaps for the inside of a JSON string, and of a JSON list
WRITTEN: dict[str, Message] = {
    "STARTED": schema.Started(_GAP, _GAP + 1, _GAP + 2, keeps_waiters=True, wakes=True),
    "STARTED_WARNED": schema.Started(_GAP, _GAP + 1, _GAP + 2, (_LIST,), keeps_waiters=True, wakes=True),
    "EXITED": schema.Exited(_GAP, _GAP + 1, _GAP + 2, _GAP + 3),
    "NAMESPACES_READY": schema.NamespacesReady(_GAP, _GAP + 1),
    "FAILURE": schema.Failed(_WORD, _GAP, _WORD, _GAP + 1),
    "WARNING": schema.Warned(_WORD),
    "PROCEED": schema.Proceed(),
    "DETACHED": schema.Detached(),
}
"""The messages that C writes, or knows when it reads them; each value that C fills in is a gap."""


def text() -> str:
    """The whole text of the header."""
    lines = [
        "/* Made by `python3 -m engine.wire.header` from what engine/wire declares; a test compares the two. */",
        "#ifndef MUXER_WIRE_H",
        "#define MUXER_WIRE_H",
        "",
        "#include <inttypes.h>",
    ]
    for what, words in WORDS.items():
        lines += ["", f"/* The first byte of {what}. */"]
        lines += [f"#define WIRE_{name} '{word.decode('ascii')}'" for name, word in words.items()]
    lines += ["", "/* In bytes. */", *(f"#define WIRE_{name}_SIZE {size}" for name, size in SIZES.items())]
    lines += [
        "",
        "/* Of the words of the proxy. */",
        *(f"#define WIRE_{name} {each}" for name, each in NUMBERS.items()),
    ]
    lines += ["", "/* How the place of a mount is found. */"]
    lines += [f"#define WIRE_PLAN_{name} {getattr(plan, name)}" for name in ("STRAIGHT", "ASKED", "SAME_MODE")]
    rows = (
        f'    row({number}, {name}, "{step}", {"true" if name in plan.AHEAD else "false"})'
        for number, (name, step) in enumerate(plan.STEPS, 1)
    )
    lines += ["", "/* The steps of a plan: number, name, name in a failure, whether it may have been done ahead. */"]
    lines.append(" \\\n".join(["#define WIRE_PLAN_STEPS(row)", *rows]))
    words_of = (f'    row({errno.errorcode[number]}, "{words}")' for number, words in reasons.WORDS.items())
    lines += ["", "/* The words for errors that some C library words otherwise (engine.kernel.reasons). */"]
    lines.append(" \\\n".join(["#define WIRE_REASONS(row)", *words_of]))
    for name, message in WRITTEN.items():
        gaps = [field for field, value in asdict(message).items() if _is_gap(value)]
        numbers = f", with int64_t for: {', '.join(gaps)}" if gaps else ""
        lines += ["", f"/* The message {type(message).__name__} for printf(3){numbers}. */"]
        lines.append(f"#define WIRE_{name} {_format(message)}")
    lines += ["", "/* The text of engine/logs/order.py and compress.py, without their docstrings and comments. */"]
    lines.append("#define WIRE_COMPRESS \\")
    lines += [f"    {_literal(line)} \\" for line in _compressing()] + ['    ""']
    return "\n".join([*lines, "", "#endif", ""])


def _compressing() -> list[str]:
    """Both modules as one program, in which each has what it imports of the engine's."""
    first, second = (_bare(inspect.getsource(module)) for module in (order, compress))
    second.remove(f"from engine.logs import {order.__name__.rpartition('.')[2]}")
    assert not any("engine" in line and "import" in line for line in first + second)
    return [*first, "import types", "order = types.SimpleNamespace(read=read, write=write)", *second]


def _bare(source: str) -> list[str]:
    """The lines of a module without docstrings, and without lines that are empty or have only a comment."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno
            last = last or first
            lines[first - 1 : last] = [""] * (last - first + 1)
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _literal(line: str) -> str:
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}\\n"'


def _is_gap(value: object) -> bool:
    return isinstance(value, int) and value >= _GAP


def _format(message: Message) -> str:
    """A datagram as a string literal of C."""
    quoted = channel.datagram(message).decode("ascii").replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"')
    quoted = quoted.replace(f'\\"{_LIST}\\"', "%s").replace(_WORD, "%s")
    for value in asdict(message).values():
        if _is_gap(value):
            quoted = quoted.replace(str(value), '%" PRId64 "')
    return f'"{quoted}"'


if __name__ == "__main__":
    HEADER.write_text(text())
    print(f"{HEADER}: {len(codec.CLASSES)} messages are declared, {len(WRITTEN)} of them written by C", file=sys.stderr)

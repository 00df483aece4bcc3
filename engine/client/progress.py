"""Shows the progress of a pull, a load or an import on the user's terminal as docker does.

Runs in the client's one thread. On a terminal each layer has its own line, which is overwritten as the work goes on.
Elsewhere only whole steps are shown, one a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from engine.client.display import size
from engine.client.showing import colours
from engine.client.transport import Object
from engine.late import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

_BAR = 30
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # the classic builder writes the errors of commands in red
_STEP = re.compile(r"Step \d+/\d+ :")


def show(documents: Iterable[Object], out: TextIO, columns: int | None) -> None:
    """Show progress documents as they come. `columns`: the terminal's width, or None where `out` is no terminal."""
    if columns is None:
        _show_steps(documents, out)
    else:
        _show_lines(documents, out, columns)


def _show_steps(documents: Iterable[Object], out: TextIO) -> None:
    for document in documents:
        if "stream" in document:
            out.write(_COLOUR.sub("", str(document["stream"])))
            out.flush()
        elif not document.get("progressDetail") and (text := line(document)):
            print(text, file=out, flush=True)


def _show_lines(documents: Iterable[Object], out: TextIO, columns: int) -> None:
    rows: dict[str, int] = {}
    on = colours.wanted(out)
    for document in documents:
        if "stream" in document:
            # What a build's commands write may end anywhere in a line.
            text = str(document["stream"]) if on else _COLOUR.sub("", str(document["stream"]))
            out.write(_STEP.sub(lambda found: colours.painted(found[0], "bold", on), text))
            out.flush()
            rows.clear()
            continue
        if "aux" in document and not line(document):
            continue
        text = line(document)[: columns - 1]
        identity = document.get("id", "")
        if not identity or "progressDetail" not in document:
            print(text, file=out, flush=True)
            rows.clear()  # the lines above this one are finished
            continue
        if identity not in rows:
            rows[identity] = len(rows)
            print(text, file=out, flush=True)
            continue
        up = len(rows) - rows[identity]
        out.write(f"\x1b[{up}A\x1b[2K\r{text}\r\x1b[{up}B")
        out.flush()


def line(document: Object) -> str:
    """One progress document as a line of text."""
    text: str = document.get("status", "")
    if document.get("id"):
        text = f"{document['id']}: {text}"
    detail = document.get("progressDetail") or {}
    current, total = detail.get("current", 0), detail.get("total", 0)
    if total > 0:
        done = min(_BAR, _BAR * current // total)
        bar = "=" * done + ">" * (done < _BAR)
        return f"{text} [{bar:<{_BAR}}] {size(current)}/{size(total)}"
    return f"{text} {size(current)}" if current else text

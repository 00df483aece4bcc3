"""Shows the progress of a pull, a load or an import on the user's terminal as docker does.

Runs in the client's one thread. On a terminal each layer has its own line, which is overwritten as the work goes on.
Elsewhere only whole steps are shown, one a line.
"""

from collections.abc import Iterable
from typing import TextIO

from engine.client.display import size
from engine.client.transport import Object

_BAR = 30


def show(documents: Iterable[Object], out: TextIO, columns: int | None) -> None:
    """Show progress documents as they come. `columns`: the terminal's width, or None where `out` is no terminal."""
    if columns is None:
        _show_steps(documents, out)
    else:
        _show_lines(documents, out, columns)


def _show_steps(documents: Iterable[Object], out: TextIO) -> None:
    for document in documents:
        if not document.get("progressDetail") and (text := line(document)):
            print(text, file=out, flush=True)


def _show_lines(documents: Iterable[Object], out: TextIO, columns: int) -> None:
    rows: dict[str, int] = {}
    for document in documents:
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
    if "stream" in document:
        return str(document["stream"]).rstrip("\n")
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

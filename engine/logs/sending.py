"""Chooses the log reader that sends a log to a client, the one in C or the one in Python, by the selected muxer."""

from collections.abc import Callable

from engine.late import TYPE_CHECKING, late
from engine.logs.query import Query

if TYPE_CHECKING:  # the reader that is not chosen is never loaded
    from engine.logs import jsonreader, nativelines, nativereader, reader
else:
    jsonreader = late("engine.logs.jsonreader")
    nativelines = late("engine.logs.nativelines")
    nativereader = late("engine.logs.nativereader")
    reader = late("engine.logs.reader")

Send = Callable[[str, int, Query, bool, int | None], bool]
"""(directory, sink_fd, query, chunked, ended_fd), see `engine.logs.reader.send`."""


def sender(muxer: str) -> Send:
    """The function `send` of the chosen reader. muxer: what `engine.muxer.select` has chosen."""
    if muxer == "python":
        return reader.send
    return nativereader.send


def lines(muxer: str) -> "jsonreader.Make":
    """What takes the lines of a log of JSON lines apart, for `engine.logs.jsonreader.send`."""
    if muxer == "python":
        return jsonreader.PythonOut
    return nativelines.Out

"""Chooses the log reader that sends a log to a client, the one in C or the one in Python, by the selected muxer."""

from collections.abc import Callable

from engine.logs.query import Query

Send = Callable[[str, int, Query, bool, int | None], bool]
"""(directory, sink_fd, query, chunked, ended_fd), see `engine.logs.reader.send`."""


def sender(muxer: str) -> Send:
    """The function `send` of the chosen reader. muxer: what `engine.muxer.select` has chosen."""
    if muxer == "python":
        from engine.logs import reader

        return reader.send
    from engine.logs import nativereader

    return nativereader.send

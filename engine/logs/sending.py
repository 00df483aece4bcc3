"""Which of the two readers sends a log to a client: the C muxer's, or its Python twin."""

from collections.abc import Callable

from engine.logs.query import Query

Send = Callable[[str, int, Query, bool, int | None], bool]
"""(directory, sink_fd, query, chunked, ended_fd), see `engine.logs.reader.send`."""


def sender(muxer: str) -> Send:
    """The function `send` of the reader that was chosen; muxer: what `engine.muxer.select` has said."""
    if muxer == "python":
        from engine.logs import reader

        return reader.send
    from engine.logs import nativereader

    return nativereader.send

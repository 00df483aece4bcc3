"""Which of the two readers sends a log to a client: the C muxer's, or its Python twin."""

import importlib
from collections.abc import Callable

_READERS = {"c": "engine.logs.nativereader", "python": "engine.logs.reader"}


def sender(muxer: str) -> Callable[..., bool]:
    """The function `send` of that reader, see engine.logs.reader; muxer: what `engine.muxer.select` has chosen."""
    return importlib.import_module(_READERS[muxer]).send

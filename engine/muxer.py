"""The choice between the C muxer and its Python twins: by a setting, never by a swallowed ImportError.

Made at start by the daemon and by the spawner, before it forks. Both do the same and make the same bytes: the pump and
the waiters (`engine.monitor.parts`) and the reader of logs (`engine.logs.sending`).
"""

import importlib

import _muxer
from engine.errors import Invalid, Unavailable

SETTINGS = ("auto", "c", "python")


def select(setting: str = "auto") -> str:
    """`c` or `python`, for the `--muxer` setting. Raises Unavailable when `c` is asked for and not built, else Invalid.

    A build that is there and cannot be loaded raises its ImportError whatever the setting but `python`: a broken
    install is not to be mistaken for a slow one.
    """
    if setting not in SETTINGS:
        raise Invalid(f"invalid muxer {setting!r}: must be one of {', '.join(SETTINGS)}")
    if setting == "c" and not _muxer.built():
        raise Unavailable("the C muxer is not built on this host: run python3 -m _muxer.build, or use --muxer python")
    if setting == "python" or not _muxer.built():
        return "python"
    importlib.import_module("_muxer._native")
    return "c"

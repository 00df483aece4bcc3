"""Chooses by the `--muxer` setting between the C extension `_muxer` and the Python code that does the same (pump,
waiters, log reader).

The daemon chooses at its start, and so does the spawner before it forks. Both variants make the same bytes: the pump
and the waiters (`engine.monitor.parts`) and the reader of logs (`engine.logs.sending`). The choice never hides an
ImportError.
"""

import importlib
from importlib.util import find_spec

import _muxer
from engine.errors import Invalid, Unavailable

SETTINGS = ("auto", "c", "python")


def select(setting: str = "auto") -> str:
    """`c` or `python`, for the `--muxer` setting. Raises Unavailable when `c` is asked for and not built, Invalid for
    an unknown setting.

    An extension that is built but cannot be loaded raises its ImportError, except with the setting `python`: a broken
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


def in_words(chosen: str, setting: str) -> str:
    """What was chosen by this setting; and how a host gets the C muxer where the setting would take it."""
    if (chosen, setting) != ("python", "auto"):
        return chosen
    if find_spec("_cffi_backend") is None:
        return f"{chosen} (Python lacks cffi for the faster one in C: Debian's package python3-cffi-backend)"
    return chosen if find_spec("_muxer.build") is None else f"{chosen} (python3 -m _muxer.build makes the faster one)"

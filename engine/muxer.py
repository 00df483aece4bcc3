"""Chooses by the `--muxer` setting between the C extension `_muxer` and the Python code that does the same (pump,
waiters, log reader).

The daemon chooses at its start, and so does the spawner before it forks. Both variants make the same bytes: the pump
and the waiters (`engine.monitor.parts`) and the reader of logs (`engine.logs.sending`). The choice never hides an
ImportError.
"""

import importlib
from importlib.util import find_spec
from types import ModuleType

import _muxer
from engine.errors import Invalid, Unavailable

SETTINGS = ("auto", "c", "python")


def select(setting: str = "auto") -> str:
    """`c` or `python`, for the `--muxer` setting. Raises Unavailable when `c` is asked for and not built, Invalid for
    an unknown setting.

    An extension that is built but cannot be loaded raises its ImportError, except with the setting `python`: a broken
    install is not to be mistaken for a slow one. One that was built before the tree changed counts as not built.
    """
    if setting not in SETTINGS:
        raise Invalid(f"invalid muxer {setting!r}: must be one of {', '.join(SETTINGS)}")
    if setting == "python":
        return "python"
    built = _muxer.built()
    if built and fits(importlib.import_module("_muxer._native")):
        return "c"
    if setting == "auto":
        return "python"
    of_what = "of older sources" if built else "not built on this host"
    raise Unavailable(f"the C muxer is {of_what}: run python3 -m _muxer.build, or use --muxer python")


def fits(extension: ModuleType) -> bool:
    """Whether the extension was built of this tree's headers; a tree without them has come together with it."""
    wanted = _muxer.contract()
    return not wanted or getattr(extension.lib, "MUX_CONTRACT", 0) == wanted


def in_words(chosen: str, setting: str) -> str:
    """What was chosen by this setting; and how a host gets the C muxer where the setting would take it."""
    if (chosen, setting) != ("python", "auto"):
        return chosen
    if find_spec("_cffi_backend") is None:
        return f"{chosen} (Python lacks cffi for the faster one in C: Debian's package python3-cffi-backend)"
    if find_spec("_muxer.build") is None:
        return chosen
    older = ", for the one here is of older sources" if _muxer.built() else ""
    return f"{chosen} (python3 -m _muxer.build makes the faster one{older})"

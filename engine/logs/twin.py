"""Chooses between the C muxer and its Python twin: by a setting, never by a swallowed ImportError.

Run once at start by the daemon and by the spawner (before it forks). Both twins do the same and make the same bytes.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import _muxer
from engine.errors import Invalid, Unavailable

SETTINGS = ("auto", "c", "python")


@dataclass(frozen=True, slots=True)
class Twin:
    """One implementation.

    name: `c` or `python`
    Pump: the class that moves a container's bytes, as in engine.logs.pump
    Waiters: the class that keeps those who wait for its end, as in engine.logs.waiters
    send: the function that sends a log to a client, as in engine.logs.reader
    Stay: the class that splits a monitor into two halves, as in engine.logs.stay; None: it stays one
    """

    name: str
    Pump: type
    Waiters: type
    send: Callable[..., bool]
    Stay: type | None = None


def select(setting: str = "auto") -> Twin:
    """The twin for the `--muxer` setting. Raises Unavailable when `c` is asked for and not built, else Invalid.

    A build that is there and cannot be loaded raises its ImportError whatever the setting but `python`: a broken
    install is not to be mistaken for a slow one.
    """
    if setting not in SETTINGS:
        raise Invalid(f"invalid muxer {setting!r}: must be one of {', '.join(SETTINGS)}")
    if setting == "c" and not _muxer.built():
        raise Unavailable("the C muxer is not built on this host: run python3 -m _muxer.build, or use --muxer python")
    # Late: the twin that is not chosen need not be in memory.
    if setting != "python" and _muxer.built():
        native = importlib.import_module("engine.logs.native")
        return Twin("c", native.Pump, native.Waiters, native.send, importlib.import_module("engine.logs.stay").Stay)
    pump, waiters, reader = (importlib.import_module(f"engine.logs.{name}") for name in ("pump", "waiters", "reader"))
    return Twin("python", pump.Pump, waiters.Waiters, reader.send)

"""What a monitor is made of, by the muxer that was chosen: the C's parts, or their Python twins."""

import importlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parts:
    """One implementation.

    Pump: the class that moves a container's bytes, see engine.monitor.pump
    Waiters: the class that keeps those who wait for its end, see engine.monitor.waiters
    Processes: the class that splits a monitor in two, see engine.monitor.nativeprocess; None: it stays one
    """

    Pump: type
    Waiters: type
    Processes: type | None = None


def parts(muxer: str) -> Parts:
    """The parts; muxer: what `engine.muxer.select` has chosen. What was not chosen need not be in memory."""
    if muxer == "python":
        pump, waiters = (importlib.import_module(f"engine.monitor.{name}") for name in ("pump", "waiters"))
        return Parts(pump.Pump, waiters.Waiters)
    pump, process = (importlib.import_module(f"engine.monitor.{name}") for name in ("nativepump", "nativeprocess"))
    return Parts(pump.Pump, pump.Waiters, process.Processes)

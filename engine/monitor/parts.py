"""What a monitor is made of, by the muxer that was chosen: the C's parts, or their Python twins."""

from dataclasses import dataclass

from engine.late import TYPE_CHECKING, late
from engine.monitor import contract, handover

if TYPE_CHECKING:  # what is not chosen is never loaded
    from engine.monitor import nativeprocess, nativepump, pump, waiters
else:
    nativeprocess = late("engine.monitor.nativeprocess")
    nativepump = late("engine.monitor.nativepump")
    pump = late("engine.monitor.pump")
    waiters = late("engine.monitor.waiters")


@dataclass(frozen=True, slots=True)
class Parts:
    """One implementation.

    Pump: the class that moves a container's bytes; Waiters: the class that keeps those who wait for its end
    Processes: the class that splits a monitor in two; None: it stays one
    """

    Pump: type[contract.Pump]
    Waiters: type[contract.Waiters]
    Processes: type[handover.Processes] | None = None


def parts(muxer: str) -> Parts:
    """The parts; muxer: what `engine.muxer.select` has chosen. What was not chosen need not be in memory."""
    if muxer == "python":
        return Parts(pump.Pump, waiters.Waiters)
    return Parts(nativepump.Pump, nativepump.Waiters, nativeprocess.Processes)

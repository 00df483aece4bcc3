"""Chooses the classes that a monitor is made of, those in C or those in Python, by the muxer that was selected."""

from engine.dataclass import dataclass
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
    """The classes of one muxer.

    Pump: the class that moves a container's bytes
    Waiters: the class that keeps the clients that wait for the container's end
    Processes: the class that splits a monitor into two processes; None: a monitor is one process
    """

    Pump: type[contract.Pump]
    Waiters: type[contract.Waiters]
    Processes: type[handover.Processes] | None = None


def parts(muxer: str) -> Parts:
    """The classes for this muxer. muxer: what `engine.muxer.select` has chosen.

    The modules of the other muxer are not imported, so that they need no memory.
    """
    if muxer == "python":
        return Parts(pump.Pump, waiters.Waiters)
    return Parts(nativepump.Pump, nativepump.Waiters, nativeprocess.Processes)

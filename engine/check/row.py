"""Declares what one row of `engine check` is: its name, its probe, what the engine does without it, and what mends it.

Pure data, for all modules of this package. A probe is a function that looks at the host and returns `Found`. It runs in
a child of its own (see `trial`), so it may enter namespaces and load filters. It leaves the host as it was.
"""

from collections.abc import Callable

from engine.dataclass import dataclass
from engine.settings.every import Settings

OK, MISSING, UNUSED, UNKNOWN = "ok", "missing", "unused", "unknown"
"""The states of a row. UNUSED: the host does not have it, and the engine does not need it there. UNKNOWN: the probe
itself failed.
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What a probe has found. state: one of OK, MISSING, UNUSED; text: what there is, or what is wrong, in words."""

    state: str
    text: str


@dataclass(frozen=True, slots=True)
class Check:
    """One row.

    name: what it is about; two rows never have the same
    without: what the engine does on a host that lacks it, a sentence
    mend: the command, or the step, that mends it
    essential: containers cannot run as usual without it
    """

    name: str
    probe: Callable[[Settings], Found]
    without: str
    mend: str
    essential: bool = False

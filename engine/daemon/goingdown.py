"""Tells whether the host is going down, when the daemon is told to end.

Runs in the main thread of a daemon that has received SIGTERM, which systemd sends for a restart of the unit as well as
for a power-off. On a host that systemd does not run, whoever takes the host down sends SIGPWR.
"""

import logging
import os

from engine.errors import SystemFailure
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # only a daemon that is told to end, on a host that systemd runs, asks systemd
    from engine.daemon.runtime import units as systemd
    from engine.daemon.runtime.units import Units
else:
    systemd = late("engine.daemon.runtime.units")

log = logging.getLogger(__name__)

_SECONDS = 30.0  # systemd is busy when a host goes down, and gives a unit 90
_STOPPING = "stopping"
BOOTED = "/run/systemd/system"
"""A directory that exists where systemd runs the host (sd_booted(3))."""


def goes_down(units: "Units | None" = None, booted: str = BOOTED) -> bool:
    """Whether systemd takes the host down; False where systemd does not run it, or does not answer.

    units: systemd, by default the host's; booted: see `BOOTED`
    """
    if not os.path.isdir(booted):
        return False
    try:
        return (units or systemd.Units(seconds=_SECONDS)).state() == _STOPPING
    except SystemFailure as error:
        log.warning("whether the host goes down is not known, so the containers run on: %s", error)
        return False

"""`engine power-off`: a daemon that stops the containers of an engine that sleeps, because the host goes down.

An init starts it at a power-off: systemd by a unit of its own, when it has stopped the engine's other units. A daemon
that runs by then stops its containers itself. A daemon that has fallen asleep cannot, and systemd starts none any more
for a socket. So this process becomes a daemon without sockets, for which SIGPWR is pending already.
"""

import os
import signal

from engine.daemon import goingdown, slumber
from engine.dataclass import replace
from engine.settings.every import Settings


def only_stopping(settings: Settings, booted: str = goingdown.BOOTED) -> Settings | None:
    """The settings of that daemon, for which SIGPWR is pending from then on.

    None where there is nothing to do: the engine is not asleep, or systemd runs the host and does not take it down.
    """
    if slumber.find(settings.exec_root) is None:
        return None
    if os.path.isdir(booted) and not goingdown.goes_down(booted=booted):
        return None
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPWR})
    os.kill(os.getpid(), signal.SIGPWR)
    return replace(settings, hosts=(), idle_exit=0)

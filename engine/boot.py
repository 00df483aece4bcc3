"""From one process to two: fork the spawner while this process is still small and single-threaded, then be the daemon.

Runs once, in the process that the user started. It is the only module that sees both towers, and it imports each of
them only on its own side of the fork: the spawner never holds the daemon's modules, and the two share the pages of
what was loaded before.
"""

import ctypes  # noqa: F401  (loaded here so that both processes share its pages)
import json  # noqa: F401  (the same)
import os

from engine.settings import Settings
from engine.wire.channel import Channel


def boot(settings: Settings) -> int:
    """Run a daemon with these settings until it is told to stop; returns the exit status of the process."""
    daemon_end, spawner_end = Channel.pair()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            daemon_end.close()
            from engine.spawner.main import serve  # only on this side of the fork

            status = serve(spawner_end, settings.muxer)
        finally:
            os._exit(status)
    spawner_end.close()
    from engine.daemon.main import run  # only on this side of the fork

    return run(settings, daemon_end)

"""From one process to two: fork the spawner while this process is still small and single-threaded, then be the daemon.

Runs once, in the process that the user started. It is the only module that sees both towers, and it imports each of
them only on its own side of the fork. The rooms below both are imported before, so that the two processes share their
pages: the spawner hardly ever touches one.
"""

import gc
import os
from collections.abc import Callable

from engine import muxer
from engine.errors import SystemFailure
from engine.kernel import memory
from engine.late import TYPE_CHECKING, late
from engine.sandbox import capabilities, mounts, resolvconf, seccomp  # noqa: F401  (for both, as said above)
from engine.sandbox.cgroups import detection  # noqa: F401  (for both too)
from engine.settings.every import Settings
from engine.wire.channel import Channel

if TYPE_CHECKING:  # each is loaded on its own side of the fork
    from engine.daemon import main as daemon
    from engine.spawner import main as spawner
else:
    daemon = late("engine.daemon.main")
    spawner = late("engine.spawner.main")


def boot(settings: Settings, read: Callable[[], Settings]) -> int:
    """Run a daemon with these settings until it is told to stop; returns the exit status of the process.

    read: the settings anew, for a daemon that is told to look at its configuration again
    """
    muxer.select(settings.muxer)
    stage = os.path.join(settings.exec_root, "stage")
    try:
        os.makedirs(stage, mode=0o700, exist_ok=True)
    except OSError as error:
        raise SystemFailure(f"the exec root cannot be used: {error}") from error
    gc.collect()
    memory.trim()
    gc.freeze()  # a collection in one process would write into the pages of both
    daemon_end, spawner_end = Channel.pair()
    if os.fork() == 0:
        status = 1
        try:
            daemon_end.close()
            status = spawner.serve(spawner_end, settings.muxer, stage)
        finally:
            os._exit(status)
    spawner_end.close()
    return daemon.run(settings, daemon_end, stage, read)


def be_spawner(descriptor: str, muxer: str, stage: str) -> int:
    """Be the spawner that a daemon executes when its first one has died; returns the exit status of the process."""
    return spawner.serve(Channel.adopt(int(descriptor)), muxer, stage)

"""Boots the engine: forks the spawner from the first process while that is small and single-threaded, then runs the
daemon in it.

Runs once, in the process that the user started. It is the only module that imports both towers, the daemon's side
(`engine.daemon`) and the containers' side (`engine.spawner` and what it forks), and it imports each only on its own
side of the fork. The packages that both sides use are imported before the fork, so that the two processes share their
pages: the spawner hardly ever writes to one.
"""

import gc
import os
import signal
from collections.abc import Callable

from engine import muxer, origin
from engine.errors import SystemFailure
from engine.kernel import ownership, reasons
from engine.kernel.descriptors import close_all_but
from engine.late import TYPE_CHECKING, late
from engine.settings.every import Settings
from engine.settings.whose import HOME
from engine.wire.channel import Channel

if TYPE_CHECKING:  # for a user's daemon
    from engine.daemon import awaiting
    from engine.kernel import outside
    from engine.rootless import home
else:
    awaiting = late("engine.daemon.awaiting")
    outside = late("engine.kernel.outside")
    home = late("engine.rootless.home")

if TYPE_CHECKING:  # each is loaded on its own side of the fork
    from engine.daemon import main as daemon
    from engine.spawner import main as spawner
else:
    daemon = late("engine.daemon.main")
    spawner = late("engine.spawner.main")


def boot(settings: Settings, read: Callable[[], Settings]) -> int:
    """Run a daemon with these settings until it is told to stop; returns the exit status of the process.

    read: reads the settings anew, for a daemon that is told to reload its configuration
    Raises SystemFailure, Invalid and Unavailable.
    """
    muxer.select(settings.muxer)
    stage = os.path.join(settings.exec_root, "stage")
    own = home.handed_on() if HOME in os.environ else None
    try:
        ownership.make(settings.exec_root, 0o711, ("stage",))
    except OSError as error:
        raise SystemFailure(f"the exec root cannot be used: {reasons.whole(error)}") from error
    # Otherwise a garbage collection in one process would write to the pages that both share. There is next to no
    # garbage yet, and to look for it takes as long as to load ten modules.
    gc.freeze()
    # Whoever has started this process may have ignored it. Then no child would leave its status, and each that fails
    # would be taken for one that does not.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    daemon_end, spawner_end = Channel.pair()
    forked = os.fork()
    if forked == 0:
        status = 1
        try:
            if own is not None:
                own.enter()
            # Neither the spawner nor what it forks may hold a socket that systemd has passed to the daemon: they
            # outlive the daemon, and the socket would outlive its unit.
            close_all_but((spawner_end.fileno(), *origin.descriptors()))
            status = spawner.serve(spawner_end, settings.muxer, stage)
        finally:
            os._exit(status)
    spawner_end.close()
    if own is not None:
        awaiting.block()
        outside.stay()
        own.enter()
    return daemon.run(settings, daemon_end, forked, stage, read)


def be_spawner(descriptor: str, muxer: str, stage: str) -> int:
    """Run the spawner that a daemon executes when its first spawner has died; returns the exit status of the process.

    descriptor: number of the inherited socket to the daemon; muxer: `auto`, `c` or `python`; stage: an empty directory
    """
    origin.keep_to_itself()
    return spawner.serve(Channel.adopt(int(descriptor)), muxer, stage)

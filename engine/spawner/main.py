"""The spawner: receive a request, fork a monitor for it, forget it.

One process, one thread, started by `boot` before the daemon has threads, because a threaded process must not fork. It
has everything a monitor and an init need already imported and frozen out of the garbage collector's sight, so that the
pages stay shared with all of its children. It never decodes a request, never imports the daemon, and ends when the
daemon's end of the socket is closed: monitors and containers need neither of them.
"""

import gc
import os
import signal

from engine.monitor import main as monitor
from engine.wire.channel import Channel


def serve(requests: Channel) -> int:
    """Fork a monitor for each request until the daemon is gone; returns the exit status of the process."""
    os.setsid()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # a Ctrl-C or a stop is for the daemon; its end is seen on the socket
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # monitors are nobody's to wait for
    monitor.preload()
    gc.collect()
    gc.freeze()
    gc.disable()
    while (request := requests.receive_packed()) is not None:
        data, descriptors = request
        if os.fork() == 0:
            status = 1
            try:
                requests.close()
                status = monitor.main(data, descriptors)
            finally:
                os._exit(status)
        for descriptor in descriptors:
            os.close(descriptor)
    return 0

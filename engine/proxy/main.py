"""Entry point of the userland proxy without the C muxer.

With the C muxer the process never runs Python (`_muxer/process/proxy.c`). One thread. The spawner forks it for the
first published port that the firewall cannot lead to a container. No process waits for it or reads its output. The
reason of a failure is left in a file of the exec root, for the daemon to log.
"""

import os

from engine.kernel import title
from engine.proxy import bounds, confine, orders
from engine.wire import channel, exitfile
from engine.wire.schema import BeProxy, BeTransparentProxy


def main(data: bytes, descriptors: list[int]) -> int:
    """Be the proxy that this request (`BeProxy`, `BeTransparentProxy`) asks for; returns the process's exit status."""
    asked, (link, daemons, home) = channel.unpack(data, descriptors)
    assert isinstance(asked, BeProxy | BeTransparentProxy)
    transparent = isinstance(asked, BeTransparentProxy)
    title.become("proxy")
    place = f"/proc/self/fd/{os.dup(home)}"
    most = bounds.of_files(transparent)
    try:
        confine.confine(transparent)
        orders.run(link, daemons, home, most)
    except BaseException:
        exitfile.write_crash(place, exitfile.PROXY_CRASH)
        return 1
    return 0

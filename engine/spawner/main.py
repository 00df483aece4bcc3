"""The spawner's loop: receives a request of the daemon, forks a monitor, the resolver or the proxy, and forgets it.

One process with one thread, started by `boot` before the daemon has threads, because a threaded process must not fork.
Everything that a monitor and an init need is imported here already and hidden from the garbage collector (gc.freeze),
so that the pages stay shared with all children. Modules that only few children need are kept as well (`modules`),
because by then the files on disk may be of another version. With the C muxer the spawner waits and forks in C
(`monitor.nativeprocess`), else in `forking`; either keeps one prepared spare. It never decodes a request and never
imports the daemon. It ends when the daemon's end of the socket is closed: monitors and containers need neither the
daemon nor the spawner.
"""

import gc
import os
import signal

from engine import dataclass, origin, regex
from engine.kernel import title, variables
from engine.late import TYPE_CHECKING, late
from engine.monitor import main as monitor
from engine.monitor.parts import parts
from engine.muxer import select
from engine.sandbox import plan
from engine.spawner import forking, modules, version
from engine.wire.channel import BE_PROXY, BE_RESOLVER, BE_TRANSPARENT_PROXY, Channel
from engine.wire.schema import Spawns

if TYPE_CHECKING:  # the spawner keeps their code, and one process a daemon runs each of them
    from engine.proxy import main as proxy
    from engine.resolver import main as resolver
else:
    proxy = late("engine.proxy.main")
    resolver = late("engine.resolver.main")


def serve(requests: Channel, muxer: str, stage: str) -> int:
    """Fork a monitor for each request until the daemon is gone; returns the exit status of the process.

    muxer: the setting, `auto`, `c` or `python`; stage: an empty directory in which a spare prepares
    """
    os.setsid()
    title.become("spawner")
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(name, signal.SIG_IGN)  # meant for the daemon; the spawner sees the daemon's end on the socket
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the spawner does not wait for its monitors
    made_of = parts(select(muxer))
    modules.keep()
    _greet(requests)
    variables.forget_copies()
    origin.settle()
    dataclass.settle()
    regex.settle()
    gc.collect()
    gc.freeze()
    gc.disable()
    if made_of.Processes is not None:
        processes = made_of.Processes()
        part = processes.spawn(requests.fileno(), True, plan.furniture() if plan.possible() else b"", stage)
        if part == "resolves":
            return _be_resolver(*processes.request)
        return 0 if part == "ended" else monitor.be(part, processes, stage)
    services = {
        BE_RESOLVER: _settle_as_resolver,
        BE_PROXY: _settle_as_proxy,
        BE_TRANSPARENT_PROXY: _settle_as_proxy,
    }
    return forking.serve(requests, made_of, stage, services)


def _greet(requests: Channel) -> None:
    """Send the daemon the version of this spawner.

    A daemon reads it only from a spawner that it has started anew after the first one died. Until then it waits in the
    socket.
    """
    try:
        requests.send(Spawns(version.fingerprint()))
    except BrokenPipeError:
        pass  # the daemon has gone; the loop sees that next


def _settle_as_resolver(data: bytes, descriptors: list[int]) -> int:
    monitor.settle()
    return _be_resolver(data, descriptors)


def _settle_as_proxy(data: bytes, descriptors: list[int]) -> int:
    monitor.settle()
    gc.enable()
    return proxy.main(data, descriptors)


def _be_resolver(data: bytes, descriptors: list[int]) -> int:
    gc.enable()  # it lives long, and its cycles are its own
    return resolver.main(data, descriptors)

"""The bounds of one proxy: how many sockets, connections and clients it has, and how long it waits.

Pure, but for the look at the process's own limit of open files. `_muxer/process/proxy.c` shares the files out in the
same way.
"""

import resource

from engine.dataclass import dataclass

_FEWEST = 64
_SPARE = 64  # descriptors of the proxy itself
_UNLIMITED = 1 << 20
_MOST_STREAMS = 16384
_MOST_FLOWS = 8192
_OF_STREAM = 6  # descriptors: two sockets, two pipes


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds, as in `struct mux_proxy_limits` of _muxer/muxer.h.

    leads: sockets of the host; streams: connections at a time; flows: clients of UDP ports at a time
    streams_each, flows_each: those of one container
    idle_ms: after so long without a datagram, a UDP client is forgotten
    linger_ms: after so long without a container, the proxy ends, even if there is a daemon
    transparent: whether containers may see their clients' own addresses
    """

    leads: int
    streams: int
    streams_each: int
    flows: int
    flows_each: int
    idle_ms: int = 90_000
    linger_ms: int = 20_000
    transparent: bool = False


def of_files(transparent: bool = False) -> Limits:
    """Raise the soft limit of open files to the hard one, and share the files out."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = _UNLIMITED if hard == resource.RLIM_INFINITY else max(_FEWEST, min(hard, _UNLIMITED))
    room = room - _SPARE if room > 2 * _SPARE else room // 2
    streams = min(room // 2 // _OF_STREAM, _MOST_STREAMS)
    flows = min(room // 4, _MOST_FLOWS)
    return Limits(room // 4, streams, streams // 2 + 1, flows, flows // 2 + 1, transparent=transparent)

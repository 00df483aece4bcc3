"""What can be seen of other processes, by /proc and by what they send: for tests that look at them from outside."""

import os
import select
import signal
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.harness.descriptors import open_links
from tests.unit.muxer.spawned import PATIENCE_S, STDERR, STDOUT

_HEAD = struct.Struct(">BxxxI")
_STREAMS = {1: STDOUT, 2: STDERR}


def streams_of(data: bytes) -> tuple[dict[int, bytes], int]:
    """The bytes of each stream in frames, and how many there are of a frame that was cut."""
    found, place = {1: b"", 2: b""}, 0
    while len(data) - place >= _HEAD.size:
        stream, size = _HEAD.unpack_from(data, place)
        assert stream in found and size > 0 and data[place + 1 : place + 4] == bytes(3), "not a frame"
        end = place + _HEAD.size + size
        if end > len(data):
            break
        found[stream] += data[place + _HEAD.size : end]
        place = end
    return found, len(data) - place


def check_streams(expected: dict[int, bytes], data: bytes, streams: int, whole: bool, cut: bool = False) -> None:
    """These frames hold what was written to these streams. whole: all of it; cut: the last frame may be part of one."""
    found, left = streams_of(data)
    assert cut or left == 0
    for stream, text in found.items():
        wanted = expected[stream] if streams & _STREAMS[stream] else b""
        assert text == wanted if whole else wanted.startswith(text)


def gather(clients: list[socket.socket]) -> dict[socket.socket, bytes]:
    """All that these get until their end. They are read by turns: one that is not read holds up the others."""
    got, left = dict.fromkeys(clients, b""), list(clients)
    while left:
        ready = select.select(left, [], [], PATIENCE_S)[0]
        assert ready, "a client does not see the end"
        for each in ready:
            if not (data := each.recv(1 << 20)):
                left.remove(each)
            got[each] += data
    return got


def until(what: Callable[[], bool], otherwise: str) -> None:
    """Wait until this is so."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end, otherwise
        time.sleep(0.002)


def has_ended(pidfd: int) -> bool:
    """Whether the process has ended, reaped or not."""
    return bool(select.select([pidfd], [], [], 0)[0])


def is_reaped(pidfd: int) -> bool:
    """Whether not even a zombie is left of it."""
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return True
    return False


def stat_field(pid: int, number: int) -> int:
    """A field of proc_pid_stat(5)."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[number - 3])


def name_of(pid: int) -> str:
    """What ps(1) calls it; empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def children(pid: int) -> list[int]:
    """Its children, also those that have ended."""
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def held(pid: int) -> set[int]:
    """The inodes of its sockets and pipes."""
    found = (each.partition(":") for each in open_links(pid))
    return {int(rest[1:-1]) for kind, _, rest in found if kind in ("socket", "pipe")}


def has_only(pid: int, gate: Path, other: int) -> bool:
    """Whether a container has nothing open but its pipes and its gate, and not the other pipe.

    Before it executes its program it has more.
    """
    own = {each for each in open_links(pid) if each != str(gate)}
    return len(own) <= 3 and all(each.startswith("pipe:") for each in own) and other not in held(pid)


def all_processes() -> list[int]:
    """All there are."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]

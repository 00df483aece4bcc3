"""A client of BuildKit for tests, its session served by grpcio: it offers one directory by FileSync."""

import contextlib
import os
import queue
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import fsutil
from engine.daemon.buildkit.messages.fsutil import Packet, Stat
from engine.protocols import protobuf
from tests.harness.links import LONG, running

PIECE = 32 * 1024


def go_mode(mode: int) -> int:
    """The mode of stat(2) as Go's FileMode."""
    kinds = {stat.S_IFDIR: 1 << 31, stat.S_IFLNK: 1 << 27, stat.S_IFIFO: 1 << 25, stat.S_IFSOCK: 1 << 24}
    bits = ((stat.S_ISUID, 1 << 23), (stat.S_ISGID, 1 << 22), (stat.S_ISVTX, 1 << 20))
    return mode & 0o777 | kinds.get(stat.S_IFMT(mode), 0) | sum(theirs for ours, theirs in bits if mode & ours)


def stats(directory: Path) -> list[Stat]:
    """What a client lists of a directory: parents first, a file's further names as links to its first."""
    found: list[Stat] = []
    first: dict[int, str] = {}

    def visit(below: str) -> None:
        for name in sorted(os.listdir(directory / below)):
            path = f"{below}/{name}" if below else name
            seen = os.lstat(directory / path)
            link = os.readlink(directory / path) if stat.S_ISLNK(seen.st_mode) else ""
            if stat.S_ISREG(seen.st_mode) and seen.st_nlink > 1:
                link = first.setdefault(seen.st_ino, path)
                link = "" if link == path else link
            size = seen.st_size if stat.S_ISREG(seen.st_mode) else 0
            made: Stat = {"path": path, "mode": go_mode(seen.st_mode), "size": size, "linkname": link}
            found.append({**made, "modTime": seen.st_mtime_ns})
            if stat.S_ISDIR(seen.st_mode):
                visit(path)

    visit("")
    return found


@dataclass
class Sender:
    """One directory. requested: the paths that the daemon asked for; refused: what it said against it"""

    directory: Path
    listed: Callable[[Path], list[Stat]] = stats
    data: Callable[[bytes], bytes] = lambda data: data
    requested: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    asked: dict[str, list[str]] = field(default_factory=dict)

    def serve(self, packets: Iterator[Packet], context: grpc.ServicerContext) -> Iterator[Packet]:
        """The client's side of the conversation."""
        self.asked = {}
        for key, value in context.invocation_metadata():
            self.asked.setdefault(key, []).append(value)
        entries = self.listed(self.directory)
        for entry in entries:
            yield {"type": fsutil.STAT, "stat": entry}
        yield {"type": fsutil.STAT}
        out: queue.SimpleQueue[Packet | None] = queue.SimpleQueue()
        threading.Thread(target=self._answer, args=(packets, entries, out), daemon=True).start()
        while (packet := out.get()) is not None:
            yield packet

    def _answer(self, packets: Iterator[Packet], entries: list[Stat], out: Any) -> None:
        with contextlib.suppress(grpc.RpcError):
            for packet in packets:
                if packet["type"] == fsutil.REQUEST:
                    path = entries[packet["ID"]]["path"]
                    self.requested.append(path)
                    data = self.data((self.directory / path).read_bytes())
                    for at in range(0, len(data), PIECE):
                        out.put({"type": fsutil.DATA, "ID": packet["ID"], "data": data[at : at + PIECE]})
                    out.put({"type": fsutil.DATA, "ID": packet["ID"]})
                elif packet["type"] == fsutil.ERROR:
                    self.refused.append(packet["data"].decode())
                    break
                elif packet["type"] == fsutil.FINISH:
                    out.put({"type": fsutil.FINISH})
        out.put(None)


@contextlib.contextmanager
def session(sender: Sender, place: Path) -> Iterator[Link]:
    """The daemon's link to a client that offers this directory. place: of its socket"""
    handler = grpc.stream_stream_rpc_method_handler(
        sender.serve,
        lambda data: protobuf.decode(Packet, data),
        lambda packet: protobuf.encode(Packet, packet),
    )
    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("moby.filesync.v1.FileSync", {"DiffCopy": handler})]
    )
    server.add_insecure_port(f"unix:{place}")
    server.start()
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(str(place))
    try:
        with running(peer, True) as link:
            yield link
    finally:
        server.stop(None).wait(LONG)

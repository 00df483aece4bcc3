"""A proxy in a thread of the test's process, told by a test instead of a daemon; and what stands for containers.

`Carrier` runs one of the two versions. Sockets of the loopback stand for the host's and for the container's.
"""

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

from engine.dataclass import asdict, replace
from engine.proxy import orders
from engine.proxy.bounds import Limits
from engine.wire import endpoint, leads
from engine.wire.channel import receive_with_descriptors
from engine.wire.leads import Lead, Word

PATIENCE = 30.0
LIMITS = Limits(leads=200, streams=100, streams_each=60, flows=40, flows_each=30, idle_ms=60_000, linger_ms=60_000)
WEB = "a" * 64
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


def _run(version: str, link: int, daemons: int, home: int, limits: Limits) -> None:
    if version == "python":
        orders.run(link, daemons, home, limits)
        return
    from _muxer._native import ffi, lib  # late: it may not be built

    assert lib.mux_proxy(link, daemons, home, ffi.new("struct mux_proxy_limits *", asdict(limits))) == 0


class Carrier:
    """A proxy that runs; a context manager. link: the daemon's end; home: the directory with its socket"""

    def __init__(self, version: str, home: Path, **bounds: int) -> None:
        self.home = home
        self.link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        daemons = endpoint.listen(str(home), endpoint.PROXY)
        directory = os.open(home, os.O_PATH | os.O_DIRECTORY)
        given = version, theirs.detach(), daemons.detach(), directory, replace(LIMITS, **bounds)
        self.thread = threading.Thread(target=_run, args=given)
        self.thread.start()
        self.link.settimeout(PATIENCE)
        assert self.receive()[0] == Word(leads.GREETS, number=os.getpid())

    def __enter__(self) -> "Carrier":
        return self

    def __exit__(self, *_: object) -> None:
        """Drop all that is served, so that the proxy ends without its daemon."""
        while (word := self.ask(Word(leads.TELLS))).mark == leads.LEADS:
            assert self.ask(Word(leads.DROPS, word.container)).number == 0
        self.link.close()
        self.ended()

    def ended(self) -> None:
        """Wait for the end of the proxy, and see that it has left nothing."""
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        assert list(self.home.iterdir()) == []

    def reconnect(self) -> None:
        """Be the next daemon."""
        self.link.close()
        self.link = endpoint.connect(str(self.home), PATIENCE, endpoint.PROXY)
        assert self.receive()[0].mark == leads.GREETS

    def receive(self) -> tuple[Word, list[int]]:
        """What the proxy says, and the descriptors that came with it, which the caller closes."""
        data, descriptors, _ = receive_with_descriptors(self.link, leads.LARGEST + 1, 253)
        return leads.unpack(data), descriptors

    def say(self, data: bytes, descriptors: tuple[int, ...] = ()) -> Word:
        """Send any bytes; the answer, without its descriptors."""
        socket.send_fds(self.link, [data], descriptors)
        word, stray = self.receive()
        for each in stray:
            os.close(each)
        return word

    def ask(self, word: Word, descriptors: tuple[int, ...] = ()) -> Word:
        """Send a word; the answer, without its descriptors."""
        return self.say(leads.pack(word), descriptors)

    def lead(self, ways: list[tuple[socket.socket, Lead]], container: str = WEB, run: int = 1, pid: int = 0) -> int:
        """Have these sockets lead to a container; the errno. pid: of its process 1, the test's own if 0"""
        pidfd = os.pidfd_open(pid or os.getpid())
        try:
            descriptors = *(sock.fileno() for sock, _ in ways), pidfd
            told = Word(leads.LEADS, container, run, leads=tuple(lead for _, lead in ways))
            return self.ask(told, descriptors).number
        finally:
            os.close(pidfd)


def host(kind: int = socket.SOCK_STREAM, family: int = socket.AF_INET6, address: str = "") -> socket.socket:
    """A socket of the host as the daemon gives it to the proxy."""
    made = socket.socket(family, kind)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind((address or LOOPBACK[family], 0))
    if kind == socket.SOCK_STREAM:
        made.listen(64)
    return made


def server(kind: int = socket.SOCK_STREAM, family: int = socket.AF_INET) -> socket.socket:
    """A socket that stands for a container's."""
    made = host(kind, family)
    made.settimeout(PATIENCE)
    return made


def lead_to(sock: socket.socket) -> Lead:
    """The lead to such a socket."""
    address, port = sock.getsockname()[:2]
    return Lead("tcp" if sock.type == socket.SOCK_STREAM else "udp", address, port)


def client(sock: socket.socket) -> socket.socket:
    """A client that is connected to a socket of the host."""
    made = socket.socket(sock.family, sock.type)
    made.settimeout(PATIENCE)
    made.connect(sock.getsockname())
    return made


@contextlib.contextmanager
def process() -> Iterator[subprocess.Popen]:
    """A process that stands for a container's process 1."""
    made = subprocess.Popen(["sleep", "600"])
    try:
        yield made
    finally:
        made.kill()
        made.wait()

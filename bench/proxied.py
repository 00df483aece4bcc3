"""Times the userland proxy against docker-proxy and a direct connection: `python3 -m bench.proxied [DOCKER-PROXY]`.

Needs no root and no daemon: a server on 127.0.0.1 stands for the container, and each proxy listens on ::1. The ways are
measured in turn, so that all have the same conditions of the machine; each figure is the median of the rounds. Without
the path of a docker-proxy, that column is left out.
"""

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from engine.dataclass import asdict
from engine.proxy import bounds, confine, orders
from engine.wire import endpoint, leads
from engine.wire.leads import Lead, Word

ROUNDS = 7
SIZE = 256 << 20
SECONDS = 0.5
_PIECE = bytes(1 << 18)
_TICKS = os.sysconf("SC_CLK_TCK")
_STREAM, _TRIPS, _CLOSE = b"s", b"r", b"c"

Way = tuple[tuple[str, int], int]
"""Where a client connects to, and the proxy's process; 0 for none."""


def _fork(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def _serve(listener: socket.socket) -> NoReturn:
    """Do for each client what its first byte says, in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        client, _ = listener.accept()
        _fork(lambda each=client: _answer(each))  # type: ignore[misc]  # the loop's variable, as it is now
        client.close()


def _answer(client: socket.socket) -> None:
    kind = client.recv(1)
    if kind == _STREAM:
        room, count = bytearray(1 << 18), 0
        while got := client.recv_into(room):
            count += got
        client.sendall(b"%d" % count)
    elif kind == _TRIPS:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := client.recv(1):
            client.sendall(data)
    else:
        client.sendall(kind)


def _ours(version: str, inside: int, kept: list[socket.socket]) -> Way:
    """A proxy of this engine, `c` or `python`, confined as it is in the engine."""
    home = tempfile.mkdtemp()
    daemon, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    daemons = endpoint.listen(home, endpoint.PROXY)
    directory = os.open(home, os.O_PATH | os.O_DIRECTORY)

    def run() -> None:
        daemon.close()
        limits = bounds.of_files()
        if version == "python":
            confine.confine()
            orders.run(theirs.detach(), daemons.detach(), directory, limits)
            return
        from _muxer._native import ffi, lib  # late: it may not be built

        given = ffi.new("struct mux_proxy_limits *", asdict(limits))
        lib.mux_proxy_confine(0)
        lib.mux_proxy(theirs.detach(), daemons.detach(), directory, given)

    pid = _fork(run)
    theirs.close()
    daemons.close()
    os.close(directory)
    daemon.recv(leads.LARGEST)
    outside = socket.socket(socket.AF_INET6)
    outside.bind(("::1", 0))
    outside.listen(1024)
    pidfd = os.pidfd_open(os.getpid())
    word = Word(leads.LEADS, "a" * 64, 1, leads=(Lead("tcp", "127.0.0.1", inside),))
    socket.send_fds(daemon, [leads.pack(word)], [outside.fileno(), pidfd])
    assert leads.unpack(daemon.recv(leads.LARGEST)).number == 0
    os.close(pidfd)
    kept += [daemon, outside]
    return ("::1", outside.getsockname()[1]), pid


def _dockers(program: str, inside: int) -> Way:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        port = probe.getsockname()[1]
    reads, writes = os.pipe()
    places = ["-host-ip", "::1", "-host-port", str(port), "-container-ip", "127.0.0.1", "-container-port", str(inside)]
    shell = f'exec "$0" "$@" 3>&{writes}'  # it says at descriptor 3 that it listens
    made = subprocess.Popen(["sh", "-c", shell, program, "-proto", "tcp", *places], pass_fds=[writes])
    assert os.read(reads, 100) == b"0\n"
    return ("::1", port), made.pid


def _cpu(pid: int) -> float:
    """The processor time that a process has taken, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _stream(place: tuple[str, int]) -> float:
    with socket.create_connection(place) as client:
        client.sendall(_STREAM)
        begin = time.monotonic()
        for _ in range(SIZE // len(_PIECE)):
            client.sendall(_PIECE)
        client.shutdown(socket.SHUT_WR)
        assert int(client.recv(100)) == SIZE
        return SIZE / (time.monotonic() - begin) / 1e6


def _trips(place: tuple[str, int]) -> float:
    with socket.create_connection(place) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(_TRIPS)
        begin, count = time.monotonic(), 0
        while time.monotonic() - begin < SECONDS:
            client.sendall(b"x")
            client.recv(1)
            count += 1
        return count / SECONDS


def _connections(place: tuple[str, int]) -> float:
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < SECONDS:
        with socket.create_connection(place) as client:
            client.sendall(_CLOSE)
            assert client.recv(1) == _CLOSE
        count += 1
    return count / SECONDS


def _measure(way: Way, into: dict[str, list[float]]) -> None:
    place, pid = way
    before = _cpu(pid) if pid else 0.0
    into.setdefault("stream (MB/s)", []).append(_stream(place))
    if pid:
        into.setdefault("processor of the proxy (s/GB)", []).append((_cpu(pid) - before) / (SIZE / 1e9))
    into.setdefault("round trips (1/s)", []).append(_trips(place))
    into.setdefault("connections (1/s)", []).append(_connections(place))


def main(program: str | None) -> None:
    """Measure, and print a table."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        inside = listener.getsockname()[1]
        processes = [_fork(lambda: _serve(listener))]
        kept: list[socket.socket] = []
        ways: dict[str, Way] = {"direct": (("127.0.0.1", inside), 0)}
        ways |= {f"engine, {version}": _ours(version, inside, kept) for version in ("c", "python")}
        if program:
            ways["docker-proxy"] = _dockers(program, inside)
        processes += [pid for _, pid in ways.values() if pid]
        found: dict[str, dict[str, list[float]]] = {name: {} for name in ways}
        try:
            for _ in range(ROUNDS):
                for name, way in ways.items():
                    _measure(way, found[name])
        finally:
            for pid in processes:
                os.kill(pid, signal.SIGKILL)
        cases = list(dict.fromkeys(case for each in found.values() for case in each))
        print("| case | " + " | ".join(ways) + " |\n|---|" + "---|" * len(ways))
        for case in cases:
            figures = (f"{statistics.median(each[case]):.3g}" if case in each else "" for each in found.values())
            print(f"| {case} | " + " | ".join(figures) + " |")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)

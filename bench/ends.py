"""Client and server of the network benchmarks: streams, echoes and DNS lookups, run as a file inside a network
namespace.

It runs as a process of its own, started by `inside`, the same for every engine and for the floor. `serve ADDRESS PORT`
prints when it is ready, and answers until it is killed. `stream` and `echo` (ADDRESS PORT SECONDS) and `lookup`
(ADDRESS SECONDS NAME) print one figure: bytes, round trips or answers a second.
"""

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

PIECE = 1 << 20
WINDOW = 64
_COUNT = struct.Struct(">Q")


def serve(address: str, port: str) -> None:
    """Serve `stream` and `echo`: read streams to their end and answer their length, or send each byte back."""
    listener = socket.create_server((address, int(port)))
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_answer, args=(client,), daemon=True).start()


def _answer(client: socket.socket) -> None:
    with client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if client.recv(1) == b"e":
            while data := client.recv(64):
                client.sendall(data)
            return
        room, total = bytearray(PIECE), 0
        while size := client.recv_into(room):
            total += size
        client.sendall(_COUNT.pack(total))


def stream(address: str, port: str, seconds: str) -> float:
    """Send large writes one after the other; returns bytes a second, as the server has counted them."""
    data = bytes(PIECE)
    with socket.create_connection((address, int(port))) as server:
        server.sendall(b"s")
        began = time.perf_counter()
        end = began + float(seconds)
        while time.perf_counter() < end:
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)
        total: int = _COUNT.unpack(server.recv(_COUNT.size, socket.MSG_WAITALL))[0]
        return total / (time.perf_counter() - began)


def echo(address: str, port: str, seconds: str) -> float:
    """Send one byte and wait for its return, again and again; returns round trips a second."""
    with socket.create_connection((address, int(port))) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.sendall(b"e")
        count, began = 0, time.perf_counter()
        end = began + float(seconds)
        while time.perf_counter() < end:
            server.send(b"x")
            server.recv(1)
            count += 1
        return count / (time.perf_counter() - began)


def lookup(address: str, seconds: str, name: str) -> float:
    """Ask DNS for the address of a name, with WINDOW questions under way at once; returns right answers a second."""
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0" + b"\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.connect((address, 53))
        server.settimeout(5)
        queries = [struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + question for number in range(WINDOW)]
        right, began = 0, time.perf_counter()
        end = began + float(seconds)
        for query in queries:
            server.send(query)
        while time.perf_counter() < end:
            answer = server.recv(4096)
            number, flags, _, answers = struct.unpack_from(">4H", answer)
            if flags & 0xF or not answers:
                raise SystemExit(f"{name} was not found: {answer!r}")
            right += 1
            server.send(queries[number])
        return right / (time.perf_counter() - began)


if __name__ == "__main__":
    ends: dict[str, Callable[..., float | None]] = {"serve": serve, "stream": stream, "echo": echo, "lookup": lookup}
    print(ends[sys.argv[1]](*sys.argv[2:]))

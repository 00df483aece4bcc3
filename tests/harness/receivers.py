"""Receivers of log lines as their protocols describe them: GELF, Fluentd's forward protocol, Splunk's event collector.

Each runs in threads of the test, on a listener that the test has made (in a daemon's network perhaps), and keeps what
it has got for the test to wait for.
"""

import base64
import contextlib
import gzip
import http.server
import json
import queue
import socket
import ssl
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import msgpack

PATIENCE = 30


class Arrivals:
    """What a receiver has got, in the order of its arrival."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Any] = queue.Queue()

    def put(self, one: Any) -> None:
        """One more."""
        self._queue.put(one)

    def take(self, count: int = 1) -> list[Any]:
        """The next ones; fails if they do not come."""
        return [self._queue.get(timeout=PATIENCE) for _ in range(count)]


def unpacked_gelf(data: bytes) -> dict[str, Any]:
    """A message of GELF, compressed or not."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    elif data.startswith(b"\x78"):
        data = zlib.decompress(data)
    return json.loads(data)


def gelf_message(listener: socket.socket) -> dict[str, Any]:
    """The next message of a UDP socket, put together of its chunks."""
    data = listener.recv(65536)
    if not data.startswith(b"\x1e\x0f"):
        return unpacked_gelf(data)
    chunks = {data[10]: data}
    while len(chunks) < data[11]:
        more = listener.recv(65536)
        assert more[:10] == data[:10]
        assert len(more) <= 1420
        chunks[more[10]] = more
    return unpacked_gelf(b"".join(chunks[number][12:] for number in sorted(chunks)))


@contextlib.contextmanager
def accepting(listener: socket.socket, serve: Any) -> Iterator[None]:
    """A thread that serves one connection after another of this listener until the test is done."""
    held: list[socket.socket] = []

    def work() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                held.append(connection)
                serve(connection)
            except OSError:
                if listener.fileno() < 0:
                    return
            finally:
                if held:
                    held[-1].close()

    listener.listen()
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in held:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


@contextlib.contextmanager
def fluentd(listener: socket.socket, lost: int = 0, rubbish: bytes = b"") -> Iterator[Arrivals]:
    """A server of the forward protocol, whose arrivals are (tag, time, record, option).

    lost: how many events it takes without acknowledging, closing the connection; rubbish: said in place of each
    acknowledgement
    """
    arrivals, left = Arrivals(), [lost]

    def serve(connection: socket.socket) -> None:
        unpacker = msgpack.Unpacker(raw=False, unicode_errors="replace", strict_map_key=False, timestamp=0)
        while data := connection.recv(65536):
            unpacker.feed(data)
            for tag, moment, record, option in unpacker:
                if left[0]:
                    left[0] -= 1
                    return
                if rubbish:
                    connection.sendall(rubbish)
                elif "chunk" in option:
                    assert len(base64.b64decode(option["chunk"])) == 16
                    connection.sendall(msgpack.packb({"ack": option["chunk"]}))
                arrivals.put((tag, moment, record, option))

    with accepting(listener, serve):
        yield arrivals


@contextlib.contextmanager
def accepted(listener: socket.socket, context: ssl.SSLContext) -> Iterator[Arrivals]:
    """The connections of this listener, each once TLS is over it; those that come to no TLS are dropped."""
    arrivals, running = Arrivals(), threading.Event()

    def work() -> None:
        while not running.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                continue
            connection.settimeout(PATIENCE)
            try:
                arrivals.put(context.wrap_socket(connection, server_side=True))
            except OSError:
                connection.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield arrivals
    finally:
        running.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)


class _Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_OPTIONS(self) -> None:
        """Whether there is a collector."""
        self.server.arrivals.put(("OPTIONS", self.path, dict(self.headers), []))
        self._answer(self.server.verified, b"said by the collector")

    def do_POST(self) -> None:
        """Some events, one JSON value behind the other."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.server.busy:
            self.server.busy -= 1
            self._answer(503, b"busy")
            return
        text, events = body.decode(), []
        while text:
            event, end = json.JSONDecoder().raw_decode(text)
            events.append(event)
            text = text[end:]
        self.server.arrivals.put(("POST", self.path, dict(self.headers), events))
        self._answer(200, b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, verified: int, busy: int) -> None:
        super().__init__(("127.0.0.1", 0), _Collector, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.arrivals, self.verified, self.busy = Arrivals(), verified, busy
        self.server_activate()


@contextlib.contextmanager
def splunk(
    listener: socket.socket, verified: int = 200, busy: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[Arrivals]:
    """An event collector, whose arrivals are (method, path, headers, events).

    verified: the status of its answer to OPTIONS; busy: how many posts it refuses before it takes one
    """
    if context is not None:
        listener = context.wrap_socket(listener, server_side=True)
    server = _Server(listener, verified, busy)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.arrivals
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

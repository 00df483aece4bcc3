"""DNS for tests, on the wire: one who asks, and a server that says what the test says. Knows nothing of the engine's.

Run by the test process: sockets belong to the network that a test names (see `hosts`), the server is a thread.
"""

import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.harness.hosts import Inside
from tests.harness.namespaces import Namespaces
from tests.harness.pace import patient

A, NS, PTR, MX, TXT, AAAA, SRV, HTTPS, ANY = 1, 2, 12, 15, 16, 28, 33, 65, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
RESOLVER = "127.0.0.11"
_HEAD = struct.Struct(">HHHHHH")


class Reply(NamedTuple):
    """An answer. records: addresses and names as text, by their order; size: of an OPT record, 0 for none"""

    number: int
    code: int
    truncated: bool
    question: bytes
    records: list[str]
    ttls: list[int]
    size: int
    raw: bytes


def encode_name(name: str) -> bytes:
    """A name on the wire."""
    labels = [label.encode() for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes((len(label),)) + label for label in labels) + b"\0"


def query(name: str, kind: int = A, number: int = 1, edns: int = 0, group: int = 1, flags: int = 0x0100) -> bytes:
    """A query; edns: the size of an answer that it has room for, 0 for no OPT record."""
    options = struct.pack(">BHHIH", 0, 41, edns, 0, 0) if edns else b""
    head = _HEAD.pack(number, flags, 1, 0, 0, bool(edns))
    return head + encode_name(name) + struct.pack(">HH", kind, group) + options


def _name(data: bytes, at: int) -> tuple[str, int]:
    labels, end = [], 0
    for _ in range(128):
        length = data[at]
        if length >= 0xC0:
            end = end or at + 2
            at = int.from_bytes(data[at : at + 2], "big") & 0x3FFF
        elif length == 0:
            return ".".join(labels), end or at + 1
        else:
            labels.append(data[at + 1 : at + 1 + length].decode("latin-1"))
            at += length + 1
    raise ValueError("a name in a loop")


def decode(data: bytes) -> Reply:
    """An answer, read strictly: ValueError, IndexError or struct.error for what is none."""
    number, flags, questions, answers, authorities, additional = _HEAD.unpack_from(data)
    if not flags & 0x8000:
        raise ValueError("not an answer")
    at = 12
    for _ in range(questions):
        at = _name(data, at)[1] + 4
    question = data[12:at]
    records, ttls, size = [], [], 0
    for _ in range(answers + authorities + additional):
        _, at = _name(data, at)
        kind, group, ttl, length = struct.unpack_from(">HHIH", data, at)
        at += 10
        if at + length > len(data):
            raise ValueError("a record that is cut")
        content = data[at : at + length]
        if kind == 41:
            size = group
        else:
            ttls.append(ttl)
            if kind in (A, AAAA):
                records.append(socket.inet_ntop(socket.AF_INET if kind == A else socket.AF_INET6, content))
            else:
                records.append(_name(data, at)[0])
        at += length
    if at != len(data):
        raise ValueError("more than an answer")
    return Reply(number, flags & 15, bool(flags & 0x0200), question, records, ttls, size, data)


def answer(asked: bytes, *addresses: str, code: int = NOERROR, truncated: bool = False, ttl: int = 60) -> bytes:
    """What a server answers a query with."""
    end = asked.index(b"\0", 12) + 5
    flags = 0x8180 | code | (0x0200 if truncated else 0)
    records = b""
    for address in addresses:
        family, kind = (socket.AF_INET6, AAAA) if ":" in address else (socket.AF_INET, A)
        packed = socket.inet_pton(family, address)
        records += struct.pack(">HHHIH", 0xC00C, kind, 1, ttl, len(packed)) + packed
    return asked[:2] + _HEAD.pack(0, flags, 1, len(addresses), 0, 0)[2:] + asked[12:end] + records


class Asker:
    """One UDP socket in a network, which asks the resolver there; a context manager."""

    def __init__(self, place: Namespaces | Inside, server: str = RESOLVER, timeout: float = 15.0) -> None:
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        self.socket = place.socket(socket.SOCK_DGRAM, family)
        self.socket.settimeout(patient(timeout))
        self.socket.connect((server, 53))

    def __enter__(self) -> "Asker":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, name: str, kind: int = A, **how: int) -> Reply:
        """One query and its answer. Raises TimeoutError."""
        sent = query(name, kind, **how)
        self.socket.send(sent)
        while True:
            reply = decode(self.socket.recv(65535))
            if reply.number == int.from_bytes(sent[:2], "big"):
                return reply

    def addresses(self, name: str, kind: int = A) -> list[str]:
        """The records of an answer without error."""
        reply = self.ask(name, kind)
        assert reply.code == NOERROR, reply
        return reply.records


def stream(place: Namespaces | Inside, timeout: float = 15.0) -> socket.socket:
    """A TCP connection to the resolver in a network."""
    connection = place.socket(socket.SOCK_STREAM)
    connection.settimeout(patient(timeout))
    connection.connect((RESOLVER, 53))
    return connection


def send(connection: socket.socket, *queries: bytes) -> None:
    """Send queries on a TCP connection."""
    connection.sendall(b"".join(len(each).to_bytes(2, "big") + each for each in queries))


def receive(connection: socket.socket) -> Reply | None:
    """The next answer on a TCP connection; None at its end."""
    head = _exactly(connection, 2)
    return decode(_exactly(connection, int.from_bytes(head, "big"))) if head else None


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return b""
        data += part
    return data


class Upstream:
    """A server at port 53 of a network, by UDP and TCP; closed at the end of a `with`.

    answers: called with each query and whether it came by TCP; returns what is sent back, one or several messages
    seen: (query, by TCP, from which address) in their order
    """

    def __init__(
        self,
        place: Namespaces | Inside,
        answers: Callable[[bytes, bool], bytes | list[bytes]],
        address: str = "127.0.0.1",
    ) -> None:
        self.answers = answers
        self.seen: list[tuple[bytes, bool, str]] = []
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._sockets = [place.socket(kind, family) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((address, 53))
        self._sockets[1].listen(64)
        self._bell = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Upstream":
        return self

    def __exit__(self, *_: object) -> None:
        os.eventfd_write(self._bell, 1)
        self._thread.join()
        os.close(self._bell)
        for each in self._sockets:
            each.close()

    def names(self) -> list[str]:
        """The names that were asked for."""
        return [_name(data, 12)[0] for data, *_ in self.seen]

    def _serve(self) -> None:
        udp, tcp = self._sockets
        poll = select.poll()
        for each in (self._bell, udp, tcp):
            poll.register(each, select.POLLIN)
        while self._bell not in (ready := [descriptor for descriptor, _ in poll.poll()]):
            with contextlib.suppress(OSError):  # who goes away before the answer is not this server's trouble
                if udp.fileno() in ready:
                    data, peer = udp.recvfrom(65535)
                    for message in self._answers(data, False, peer[0]):
                        udp.sendto(message, peer)
                if tcp.fileno() in ready:
                    connection, peer = tcp.accept()
                    with connection:
                        connection.settimeout(5.0)
                        data = _exactly(connection, int.from_bytes(_exactly(connection, 2), "big"))
                        for message in self._answers(data, True, peer[0]):
                            connection.sendall(len(message).to_bytes(2, "big") + message)

    def _answers(self, data: bytes, tcp: bool, peer: str) -> Iterator[bytes]:
        self.seen.append((data, tcp, peer))
        said = self.answers(data, tcp)
        yield from [said] if isinstance(said, bytes) else said

"""Conversations between buildx and a dockerd with BuildKit, as they were recorded from the daemon's socket."""

import struct
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.protocols import grpc, http2
from engine.protocols.hpack import Field
from engine.protocols.http2events import Broken, Data, Headers

FILE = Path(__file__).with_name("recordings.tar.xz")
PIECE = struct.Struct("<Bdi")  # from the daemon, when, how many bytes follow
END_OF_HEAD = b"\r\n\r\n"


@dataclass
class Call:
    """One call: its path, the messages of both sides, and how it ended. fields: with which it began"""

    path: str
    fields: list[Field] = field(default_factory=list)
    asked: list[bytes] = field(default_factory=list)
    answered: list[bytes] = field(default_factory=list)
    status: grpc.Status | None = None


def connections() -> Iterator[tuple[str, list[tuple[bool, bytes]]]]:
    """The name of each recorded connection, and its pieces: whether the daemon sent it, and the bytes."""
    with tarfile.open(FILE) as archive:
        for member in sorted(archive, key=lambda one: one.name):
            if not member.isfile():
                continue
            data, place, pieces = archive.extractfile(member).read(), 0, []  # type: ignore[union-attr]
            while place < len(data):
                sender, _, size = PIECE.unpack_from(data, place)
                place += PIECE.size
                pieces.append((bool(sender), data[place : place + size]))
                place += size
            yield member.name, pieces


def head(pieces: list[tuple[bool, bytes]]) -> list[str]:
    """The lines with which the client began a connection."""
    return b"".join(data for sender, data in pieces if not sender).split(END_OF_HEAD)[0].decode().split("\r\n")


def calls(pieces: list[tuple[bool, bytes]]) -> list[Call]:
    """The calls of a connection that became one of HTTP/2, in order; none for any other."""
    left = {False: b"", True: b""}
    whole = {side: b"".join(data for sender, data in pieces if sender == side) for side in left}
    if not whole[True].startswith(b"HTTP/1.1 101") and b"HTTP/1.1 101" not in whole[True]:
        return []
    asks_first = b"/session" not in whole[False].split(b"\r\n", 1)[0]  # in a session the daemon begins the calls
    ends = {False: http2.Connection(client=False), True: http2.Connection(client=True)}
    found: dict[int, Call] = {}
    bodies: dict[tuple[int, bool], grpc.Messages] = {}
    for sender, data in pieces:
        asking = sender != asks_first
        if END_OF_HEAD not in left[sender]:
            left[sender] += data
            if END_OF_HEAD not in left[sender]:
                continue
            data = left[sender].split(END_OF_HEAD, 1)[1]
        end = ends[not asking]
        for event in end.receive(data):
            assert not isinstance(event, Broken), event
            if isinstance(event, Headers):
                _fields(found, ends[True], asking, event.stream, event.fields)
            elif isinstance(event, Data):
                end.consumed(event.stream, event.taken)
                body = bodies.setdefault((event.stream, asking), grpc.Messages(1 << 24))
                call = found[event.stream]
                (call.asked if asking else call.answered).extend(body.feed(event.data))
    return list(found.values())


def _fields(found: dict[int, Call], asker: http2.Connection, asking: bool, stream: int, fields: list[Field]) -> None:
    named = dict(fields)
    if asking:
        assert asker.open(fields) == stream
        found[stream] = Call(named[b":path"].decode(), fields)
    elif b"grpc-status" in named:
        found[stream].status = grpc.status_of(fields)

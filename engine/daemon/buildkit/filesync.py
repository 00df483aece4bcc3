"""Asks a client for a directory of its own: the conversation of fsutil over FileSync/DiffCopy, with what it asks for.

Runs on a thread of the build. The client lists all, the daemon asks for the files that differ from its mirror, and a
few of them travel at a time. A client that lists or sends what cannot be ends the build with words.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Protocol
from urllib.parse import quote_plus

from engine.daemon.builder.mirrors import Mirror, remembered
from engine.daemon.buildkit import methods, mirror
from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.knownlist import KnownList
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import fsutil
from engine.daemon.buildkit.messages.fsutil import Packet
from engine.daemon.buildkit.mirror import Entry, Listing, Missing
from engine.daemon.tar.space import check_room, check_space
from engine.dataclass import dataclass, field
from engine.errors import EngineError, Invalid, SystemFailure, Unavailable
from engine.kernel import reasons, writeback
from engine.protocols import grpc, protobuf
from engine.protocols.hpack import Field

_FAREWELL_SECONDS = 2.0
_AT_A_TIME = 32  # files that were asked for and have not come whole
_TOGETHER = 256 << 10  # bytes of a file that are written at once
_MOST_HELD = 64  # pieces of a file: a hostile client sends one of each byte
_BEGUN_EACH = 16 << 20  # bytes of a file that are given to the disk at once
_WEIGHED_EACH = 64 << 20  # bytes that come before the mirror's weight is noted again
_MOST_LAST_WORDS = 1000  # packets after all has come
_UNASKED = "the client sends data that nobody has asked for"
_PATH = methods.FILES + "DiffCopy"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of the client's directory is to come. name: what the client calls the directory

    followed: only these paths, and what their links lead to; excluded: patterns of .dockerignore
    included: patterns, one of which a path has to match, if there are any
    """

    name: str
    followed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    included: tuple[str, ...] = ()

    def fields(self) -> list[Field]:
        """How the client is told."""
        return [
            *_fields("dir-name", (self.name,)),
            *_fields("followpaths", self.followed),
            *_fields("exclude-patterns", self.excluded),
            *_fields("include-patterns", self.included),
        ]


def _fields(key: str, values: tuple[str, ...]) -> list[Field]:
    """One field for each value; values that are not ASCII are encoded, and a further field says so."""
    name = key.encode()
    if all(value.isascii() for value in values):
        return [(name, value.encode()) for value in values]
    encoded = [(name, quote_plus(value.encode("utf-8", "surrogateescape")).encode()) for value in values]
    return [*encoded, (name + b"-encoded", b"1")]


def receive(
    link: Link, wanted: Wanted, kept: Mirror, progress: Callable[[int], None], check: Callable[[], None] | None = None
) -> None:
    """Make a mirror the same as the client's directory.

    progress: takes the bytes that have come so far; check: raises to end it, and is called now and then
    Raises Invalid, Unavailable, SystemFailure, and what `check` raises.
    """
    with (
        Outgoing[Packet, Packet](link, _PATH, Packet, Packet, wanted.fields(), check) as call,
        KnownList(kept) as known,
    ):
        receiving = _Receiving(call, kept, progress)
        try:
            if known.comes_again(call.stream):
                kept.stays()
                progress(0)
            else:
                listing = receiving.listed()
                known.ended(call.stream)
                receiving.fetch(mirror.settle(kept.root, listing), listing.weight)
                mirror.finish(kept.root, listing)
                known.keep()
        except OSError as error:
            fault = SystemFailure(f"cannot store the build context: {reasons.of(error)}")
            receiving.refuse(fault)
            raise fault from error
        except Invalid as error:
            receiving.refuse(error)
            raise
        except grpc.Failed as error:
            raise Unavailable(f"the client cannot send {wanted.name}: {error}") from error
        finally:
            receiving.close()
        call.send({"type": fsutil.FINISH})
        call.end()
        receiving.ended()


class Hash(Protocol):
    """The methods of a hashlib object that are used here."""

    def update(self, data: memoryview | bytes, /) -> None: ...

    def digest(self) -> bytes: ...


@dataclass(slots=True)
class _Coming:
    """A file that was asked for. fd: what is written to; hash: of what was written; come, written, begun: bytes so far

    held: what has come and is not written: a client sends a large file in pieces of 32 KB
    """

    fd: int
    entry: Entry
    hash: Hash
    come: int = 0
    written: int = 0
    begun: int = 0
    held: list[memoryview | bytes] = field(default_factory=list)

    def write(self) -> None:
        """Write what is held. Raises OSError."""
        data = self.held[0] if len(self.held) == 1 else b"".join(self.held)
        self.held.clear()
        self.hash.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]
        self.written = self.come
        if self.written - self.begun >= _BEGUN_EACH:
            # Nothing of a mirror has to be durable, but the flush of the image that is built waits for all files.
            writeback.begin(self.fd, self.begun, self.written - self.begun)
            self.begun = self.written


class _Receiving:
    """The daemon's side of one conversation."""

    def __init__(self, call: Outgoing[Packet, Packet], kept: Mirror, progress: Callable[[int], None]) -> None:
        self._call = call
        self._kept, self._root = kept, kept.root
        self._progress = progress
        self._come = self._weighed = 0
        self._there = 0  # about the bytes that need not come
        self._open: dict[int, _Coming] = {}
        self._remembered = remembered(kept.root)

    @staticmethod
    def _checked(packet: Packet | None) -> Packet:
        if packet is None:
            raise Invalid("the client has ended before it has sent all")
        if packet["type"] == fsutil.ERROR:
            raise Invalid(f"error from sender: {packet['data'].decode('utf-8', 'replace')[:1000]}")
        return packet

    def listed(self) -> Listing:
        """Take the list; it ends with an entry of nothing."""
        listing = Listing()
        while (said := self._checked(self._call.receive()))["stat"] is not None:
            if said["type"] != fsutil.STAT:
                raise Invalid(_UNASKED)
            listing.add(said["stat"])
        return listing

    def fetch(self, missing: Missing, weight: int) -> None:
        """Ask for these, and write what comes. weight: of the mirror, once they are there

        The mirror weighs what has come, not what the client says: for a lie, the mirrors of others would be removed.
        """
        check_room(self._root, missing.size)
        self._there = weight - missing.size
        self._kept.weighs(self._there)
        try:
            self._fetch(missing.files, missing.count)
        finally:
            self._weigh()
            self._remembered.save(whole=False)

    def _weigh(self) -> None:
        self._weighed = self._come
        self._kept.weighs(self._there + self._come, used=False)

    def _fetch(self, waiting: Iterator[Entry], left: int) -> None:
        for entry in waiting:
            self._ask(entry)
            if len(self._open) == _AT_A_TIME:
                break
        while left:
            number, data = self._piece()
            known = self._open.get(number)
            if known is None:
                raise Invalid(_UNASKED)
            if data:
                self._write(known, data)
                continue
            self._put(known)
            del self._open[known.entry.number]
            self._remembered.learn(mirror.close(known.fd, known.entry), known.hash.digest(), closed=True)
            left -= 1
            following = next(waiting, None)
            if following is not None:
                self._ask(following)
        self._progress(self._come)

    def _piece(self) -> tuple[int, memoryview | bytes]:
        """The next packet of data: the number of its file, and the data, which are empty at the file's end."""
        message = self._call.receive_bytes()
        found = fsutil.data_of(message) if message is not None else None
        if found is not None:
            return found
        packet = self._checked(protobuf.decode(Packet, message) if message is not None else None)
        if packet["type"] != fsutil.DATA:
            raise Invalid(_UNASKED)
        return packet["ID"], packet["data"]

    def _ask(self, entry: Entry) -> None:
        check_space(self._root)
        check_room(self._root, entry.size)
        self._open[entry.number] = _Coming(mirror.create(self._root, entry), entry, hashlib.sha256())
        self._call.send({"type": fsutil.REQUEST, "ID": entry.number})

    def _write(self, file: _Coming, data: memoryview | bytes) -> None:
        self._come += len(data)
        file.come += len(data)
        if file.come > file.entry.size:
            raise Invalid(f"{file.entry.path}: it has changed while it was sent")
        file.held.append(data)
        if file.come - file.written >= _TOGETHER or len(file.held) >= _MOST_HELD:
            self._put(file)

    def _put(self, file: _Coming) -> None:
        """Write what is held of a file, and tell of it."""
        file.write()
        if self._come - self._weighed >= _WEIGHED_EACH:
            self._weigh()
        self._progress(self._come)

    def refuse(self, error: EngineError) -> None:
        """Tell the client why this ends, and give it the time to read that."""
        with contextlib.suppress(EngineError):  # it may be gone, which is no news
            self._call.stream.deadline = time.monotonic() + _FAREWELL_SECONDS
            self._call.send({"type": fsutil.ERROR, "data": str(error).encode()})
            self._call.end()
            for _ in self._call.every():
                pass

    def ended(self) -> None:
        """Read the client's own end."""
        for count, packet in enumerate(self._call.every()):
            if packet["type"] not in (fsutil.FINISH, fsutil.STAT) or count >= _MOST_LAST_WORDS:
                raise Invalid(_UNASKED)

    def close(self) -> None:
        """Close the files that have not come whole."""
        for file in self._open.values():
            os.close(file.fd)
        self._open.clear()

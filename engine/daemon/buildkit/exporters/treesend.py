"""Sending the client a directory: the conversation of fsutil over FileSend/DiffCopy, in which the daemon lists all.

Runs on the thread that exports, with one thread beside it that reads what the client asks for. The client asks for the
files that it does not have; each goes in pieces (fsutil, send.go). Who asks for what was not listed ends it.
"""

import collections
import os
import threading
from collections.abc import Callable, Iterable

from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.exporters.filesend import NUMBER, PATH, check_offered
from engine.daemon.buildkit.exporters.walked import Found
from engine.daemon.buildkit.messages import fsutil
from engine.daemon.buildkit.messages.fsutil import Packet, SentPacket
from engine.daemon.buildkit.sessions import Session
from engine.daemon.runtime import worker
from engine.errors import EngineError, Invalid, SystemFailure, Unavailable
from engine.kernel import reasons
from engine.protocols import grpc

_PIECE = 32 * 1024
_SEVERAL = b"buildkit-exporter-multi-platform"
_LOOK_SECONDS = 1.0


def send(
    session: Session, number: int, entries: Iterable[Found], told: Callable[[int], None], check: Callable[[], None]
) -> int:
    """Send the entries; how many bytes of files went.

    number: of the exporter; told: takes the bytes that were sent so far
    Raises Invalid, Lost, SystemFailure, Unavailable, and what `check` raises.
    """
    check_offered(session)
    fields = [(NUMBER, b"%d" % number), (_SEVERAL, b"1")]
    with Outgoing[SentPacket, Packet](session.link, PATH, SentPacket, Packet, fields, check) as call:
        sending = _Sending(call, told, check)
        worker.begin("export", sending.read)
        try:
            sending.list(entries)
            sending.serve()
            call.send({"type": fsutil.FINISH})
            call.end()
            sending.wait()
            return sending.sent
        except EngineError as error:
            raise sending.cause(error) from error
        finally:
            call.stream.cancel()
            sending.reading.wait()


class _Sending:
    """The daemon's side of one conversation. reading: is set once nothing more is read"""

    def __init__(self, call: Outgoing[SentPacket, Packet], told: Callable[[int], None], check: Callable[[], None]):
        self._call = call
        self._told = told
        self._check = check
        self._files: dict[int, Found] = {}
        self._changed = threading.Condition()
        # Guarded by `_changed`: what the client asks for, whether it has all, and why it ended before.
        self._asked: collections.deque[int] = collections.deque()
        self._count = 0
        self._complete = False
        self._failure: EngineError | None = None
        self.sent = 0
        self.reading = threading.Event()

    def read(self) -> None:
        """Read what the client says, to its end; runs in a thread of its own."""
        try:
            for packet in self._call.every():
                self._take(packet)
        except EngineError as error:
            with self._changed:
                self._failure = self._failure or error
        finally:
            with self._changed:
                self.reading.set()
                self._changed.notify_all()

    def _take(self, packet: Packet) -> None:
        with self._changed:
            if packet["type"] == fsutil.ERROR:
                said = packet["data"].decode("utf-8", "replace")[:1000]
                raise Unavailable(f"the client cannot take the files: {said}")
            if packet["type"] == fsutil.FINISH:
                self._complete = True
            elif packet["type"] != fsutil.REQUEST or packet["ID"] >= self._count or len(self._asked) >= self._count:
                raise Invalid("the client asks for a file that was not listed")
            else:
                self._asked.append(packet["ID"])
            self._changed.notify_all()

    def list(self, entries: Iterable[Found]) -> None:
        """Tell of all entries; an empty one says that this is all."""
        for found in entries:
            if found.has_data:
                self._files[self._count] = found
            with self._changed:
                self._count += 1
            self._call.send({"type": fsutil.STAT, "stat": found.said})
        self._call.send({"type": fsutil.STAT})

    def serve(self) -> None:
        """Send what is asked for, until the client has all."""
        while (number := self._next()) is not None:
            found = self._files.pop(number, None)
            if found is None:
                raise Invalid("the client asks for a file twice, or for what is no file")
            try:
                self._file(number, found)
            except OSError as error:
                raise SystemFailure(f"the result's files cannot be read: {reasons.whole(error)}") from error
            self._call.send({"type": fsutil.DATA, "ID": number})

    def _next(self) -> int | None:
        with self._changed:
            while not self._asked and not self._complete:
                if self._failure is not None:
                    raise self._failure
                if self.reading.is_set():
                    raise Unavailable("the client has ended before it had all")
                self._check()
                self._changed.wait(_LOOK_SECONDS)
            return self._asked.popleft() if self._asked else None

    def _file(self, number: int, found: Found) -> None:
        if found.data is not None:
            for place in range(0, len(found.data), _PIECE):
                self._piece(number, found.data[place : place + _PIECE])
            return
        fd = found.open()
        try:
            left = found.said.get("size", 0)
            while left and (data := os.read(fd, min(_PIECE, left))):
                self._piece(number, data)
                left -= len(data)
        finally:
            os.close(fd)

    def _piece(self, number: int, data: bytes) -> None:
        self._call.send({"type": fsutil.DATA, "ID": number, "data": data})
        self.sent += len(data)
        self._told(self.sent)

    def wait(self) -> None:
        """Wait for the end of what the client says. Raises what went wrong there."""
        with self._changed:
            while not self.reading.is_set():
                self._check()
                self._changed.wait(_LOOK_SECONDS)
            if self._failure is not None:
                raise self._failure

    def cause(self, error: EngineError) -> EngineError:
        """The failure that the client tells of, where there is one: what comes here is often only its consequence."""
        with self._changed:
            failure = self._failure or error
        if isinstance(failure, grpc.Failed):
            return Unavailable(f"the client cannot take the files: {failure}")
        return failure

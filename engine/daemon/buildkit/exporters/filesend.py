"""Sending the client one file: the archive that an exporter makes, over FileSend/DiffCopy, a piece in each message.

Runs on the thread that exports. The client says by the exporter's number which of its files it is (buildkit,
session/filesync/filesync.go). A client that has the file already says so, and gets no more of it.
"""

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.messages.session import BytesMessage
from engine.daemon.buildkit.sessions import Session
from engine.errors import NotFound, Unavailable
from engine.protocols import grpc
from engine.protocols.hpack import Field

NUMBER = b"buildkit-attachable-exporter-id"
PATH = methods.SENDING + "DiffCopy"
_METADATA = "exporter-md-"
_PIECE = 256 * 1024


def check_offered(session: Session) -> None:
    """Raise NotFound unless the client takes files and directories."""
    if PATH.lower() not in session.offers:
        raise NotFound(f"method {PATH} not supported by the client")


class SentFile:
    """A file of the client's; a context manager whose end waits until the client has it all.

    number: of the exporter; told: what the client may name the file by; check: raises to end the sending
    """

    def __init__(self, session: Session, number: int, told: Mapping[str, str], check: Callable[[], None]) -> None:
        check_offered(session)
        fields: list[Field] = [(NUMBER, b"%d" % number)]
        fields += [((_METADATA + key).encode(), value.encode()) for key, value in sorted(told.items())]
        self._call = Outgoing[BytesMessage, BytesMessage](session.link, PATH, BytesMessage, BytesMessage, fields, check)
        self._check = check
        self.sent = 0

    def __enter__(self) -> Self:
        self._call.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._call.end()
                self._ended()
        finally:
            self._call.__exit__(kind, error, trace)

    def _ended(self) -> None:
        try:
            for _ in self._call.every():
                pass
        except grpc.Failed as failed:
            if failed.status.code != grpc.ALREADY_EXISTS:
                raise Unavailable(f"the client cannot take the file: {failed}") from failed

    def write_large(self, data: bytes) -> None:
        """Send these bytes. Raises Lost."""
        view = memoryview(data)
        for place in range(0, len(view), _PIECE):
            piece = bytes(view[place : place + _PIECE])
            self._call.send({"data": piece})
            self.sent += len(piece)
            self._check()

    def send_file(self, descriptor: int, count: int) -> None:
        """Send the first `count` bytes of an open file. Raises Lost, Unavailable for a file that has fewer."""
        place = 0
        while place < count:
            data = os.pread(descriptor, min(_PIECE, count - place), place)
            if not data:
                raise Unavailable("a blob has ended before its end: its file is damaged")
            self.write_large(data)
            place += len(data)

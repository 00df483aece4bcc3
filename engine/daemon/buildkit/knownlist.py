"""The list that a mirror was last made the same as, kept as it came: the same list again is known by its bytes.

Runs on the thread that receives the list. Most builds find most of a client's directory as it was. Then no entry of the
list is taken apart, and no file of the mirror is looked at, since nobody but builds changes a mirror. Before a build
does, the list is forgotten. A loss of power may tear files of a mirror, so a list counts only until the next boot.
"""

import contextlib
import io
import os
import time
from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO

from engine.daemon.builder.mirrors import Mirror
from engine.daemon.buildkit.link import Stream
from engine.kernel.syscalls import boot_id

_MOST = 256 << 20  # bytes of a list that is kept
_PIECE = 1 << 16
# The client sends its list a file at a time, and shares the processors with this thread.
_PAUSE_SECONDS = 0.002


class KnownList:
    """The list of one mirror, for one conversation; a context manager, which closes its files."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._new = f"{mirror.listing}.new"
        self._mark = f"engine list 1 {boot_id()}\n".encode()
        self._held = contextlib.ExitStack()
        self._noting: BinaryIO | None = None
        self._begun = False
        self._listing = True  # what comes belongs to the list

    def __enter__(self) -> "KnownList":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()
        if self._begun:
            with contextlib.suppress(FileNotFoundError):  # it is kept
                os.unlink(self._new)

    def comes_again(self, stream: Stream) -> bool:
        """Whether the list that comes is the known one, to its end; if it is not, `stream` still returns all of it.

        After that the mirror may be changed: what was known of it is forgotten. Raises Lost, `grpc.Failed`, OSError.
        """
        known, same, data = self._known(), 0, stream.body()
        if known is not None:
            left = os.fstat(known.fileno()).st_size - len(self._mark)
            while data and known.read(len(data)) == data:
                same += len(data)
                if same == left:
                    return True
                time.sleep(_PAUSE_SECONDS)
                data = stream.body()
            known.seek(len(self._mark))
        self._mirror.changes()
        self._noting = self._held.enter_context(io.BufferedWriter(io.FileIO(self._new, "wb")))
        self._begun = True
        self._noting.write(self._mark)
        stream.put_before(self._noted(stream, known, same, data))
        return False

    def _known(self) -> BinaryIO | None:
        """The file of the known list, behind its mark; None where there is none of this boot."""
        with contextlib.suppress(FileNotFoundError):
            file = self._held.enter_context(io.BufferedReader(io.FileIO(self._mirror.listing)))
            if file.read(len(self._mark)) == self._mark:
                return file
        return None

    def _noted(
        self, stream: Stream, known: BinaryIO | None, same: int, data: bytes | bytearray
    ) -> Iterator[bytes | bytearray]:
        """The pieces of the list from its begin: those that were as known, the one that was not, and what comes."""
        while known is not None and same:
            piece = known.read(min(_PIECE, same))
            same -= len(piece)
            yield self._note(piece)
        while data:
            yield self._note(data)
            data = stream.body() if self._listing else b""

    def _note(self, piece: bytes | bytearray) -> bytes | bytearray:
        if self._noting is not None:
            self._noting.write(piece)
            if self._noting.tell() > _MOST:
                self._noting = None
        return piece

    def ended(self, stream: Stream) -> None:
        """The list has come whole. Where more has come already, it is not known where the list ended."""
        self._listing = False
        if stream.within:
            self._noting = None

    def keep(self) -> None:
        """The mirror is the same as the list that was noted. Raises OSError."""
        if self._noting is not None:
            self._noting.close()
            os.rename(self._new, self._mirror.listing)

"""Splits the framed output of a container (logs, attach) into pieces of stdout and stderr, for the client.

Pure: bytes in, (stream, bytes) out. A frame is 1 byte stream (1 stdout, 2 stderr), 3 zero bytes, 4 bytes big-endian
length, payload (Engine API, ContainerAttach). A payload is passed on as it comes, so that a long frame is never held in
memory.
"""

import struct

from engine.errors import SystemFailure

_HEADER = struct.Struct(">BxxxL")
_STREAMS = (0, 1, 2)


class Demultiplexer:
    """Splits one framed stream that comes in pieces of any size."""

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The pieces of payload in these bytes, each with its stream. Raises SystemFailure for a frame of an unknown
        stream.
        """
        pieces = []
        view = memoryview(data)
        while view:
            if self._left:
                piece, view = view[: self._left], view[self._left :]
                self._left -= len(piece)
                pieces.append((self._stream, bytes(piece)))
                continue
            missing = _HEADER.size - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER.size:
                self._stream, self._left = _HEADER.unpack(self._header)
                self._header = b""
                if self._stream not in _STREAMS:
                    raise SystemFailure(f"received a frame of unknown stream {self._stream}")
        return pieces

    @property
    def whole(self) -> bool:
        """True between two frames: the stream may end here without a loss."""
        return not self._left and not self._header


class Plain:
    """Takes the place of a `Demultiplexer` for a container with a terminal: its output has no frames, and all is
    stdout.
    """

    whole = True

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """All of the bytes, as stdout."""
        return [(1, data)] if data else []

"""The frames of a container's output taken apart: bytes in, (stream, bytes) out.

Pure. A frame is 1 byte stream (1 stdout, 2 stderr), 3 zero bytes, 4 bytes big-endian length, payload (Engine API,
ContainerAttach). A payload is passed on as it comes, so that a long frame is never held in memory.
"""

import struct

from engine.errors import SystemFailure

_HEADER = struct.Struct(">BxxxL")
_STREAMS = (0, 1, 2)


class Demultiplexer:
    """Takes apart one framed stream that comes in pieces of any size."""

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """What these bytes complete: pieces of payload with their stream. Raises SystemFailure for an alien frame."""
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
                    raise SystemFailure(f"a frame of the unknown stream {self._stream} came in")
        return pieces

    @property
    def whole(self) -> bool:
        """True between two frames: the stream may end here without a loss."""
        return not self._left and not self._header


class Plain:
    """The output of a terminal, in the place of a `Demultiplexer`: it has no frames, and everything is stdout."""

    whole = True

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """All of the bytes, as stdout."""
        return [(1, data)] if data else []

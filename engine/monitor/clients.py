"""One attached client of a container: the output still to be sent to it, its detach keys, and its place in the log.

Used in the monitor by the Python pump; tests compare `_muxer/pump/client.c` with it. It never blocks: every send and
receive says MSG_DONTWAIT, whatever the mode of the descriptor is, because other processes may share the descriptor.

A client is "owed" the bytes that are still to be sent to it. Its "head" is the head of the HTTP answer, which the
daemon sent on the same connection before it passed the connection to the monitor.
"""

import errno
import fcntl
import os
import socket
import struct
import time

from engine.logs import format
from engine.logs.openlog import OpenLog
from engine.logs.writer import list_segments

_BLOCK = format.FRAME.size + format.LARGEST_CHUNK  # room for the largest frame
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_SIOCOUTQ = 0x5411  # how many of the sent bytes the peer has not read yet (unix(7))
HEAD_SECONDS = 10.0  # the longest time to wait for a client to read its head
_LONGEST_LOOK = 0.02


class Client:
    """A client's socket and its state. The pump decides what happens; this class keeps the state.

    sends: it may still send bytes for stdin. hung_up: it receives nothing any more
    pending: bytes of chunks it was given that are not sent yet. replaying: it reads the log, and is given no chunk
        until it has reached the log's end. segment: the number of the log segment that it has open
    held: the time (time.monotonic) since which its bytes are kept back because it has not read its head yet; 0: they
        are not kept back
    """

    def __init__(self, number: int, fd: int, streams: int, framed: bool, detach: bytes) -> None:
        self.number = number
        self.fd = fd
        self.streams = streams
        self.framed = framed
        self.sends = bool(streams & 1)
        self.hung_up = False
        self.pending: memoryview = memoryview(b"")
        self.replaying = False
        self.segment = 0
        self.held = 0.0
        self._socket = socket.socket(fileno=fd)
        # The queue of a TCP socket tells what has arrived at the peer's host, not what the client has read.
        self._fresh = self._socket.family == socket.AF_UNIX
        self._detach = detach
        self._matched = 0  # how many bytes at the start of the detach keys were the last bytes that the client sent
        self._directory_fd = self._log_fd = -1
        self._offset = 0

    @property
    def owed(self) -> bool:
        """True while there is something to send."""
        return not self.hung_up and (bool(self.pending) or self.replaying)

    def close(self) -> None:
        """Ends the connection so that the client reads all that was sent, and then the end.

        If a Unix socket is closed while bytes in it are unread, its peer gets ECONNRESET instead of the end.
        """
        self._stop_replay()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
            while self._socket.recv(format.LARGEST_CHUNK, _FLAGS):
                pass
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ENOTCONN, errno.ECONNRESET, errno.EPIPE):
                raise
        finally:
            self._socket.close()

    @property
    def full(self) -> bool:
        """True while the container's outputs may not be read because this client has taken too little."""
        if self.replaying or not self.pending:
            return False
        return not self.held or len(self.pending) >= format.LARGEST_CHUNK

    # What the client is owed.

    def look_again(self) -> float | None:
        """In how many seconds to check again whether the client has read its head; None: nothing waits for that."""
        if not self.held:
            return None
        return min(max((time.monotonic() - self.held) / 4, 0.001), _LONGEST_LOOK)

    def _is_held(self) -> bool:
        """Whether the client has not read its head yet. This is polled, since no event tells it."""
        if not self._fresh:
            return False
        if struct.unpack("i", fcntl.ioctl(self._socket, _SIOCOUTQ, bytes(4)))[0]:
            now = time.monotonic()
            self.held = self.held or now
            if now - self.held < HEAD_SECONDS:
                return True
        self._fresh, self.held = False, 0.0
        return False

    def take(self, frame: memoryview) -> None:
        """Adds one chunk, given with its header, to what is owed.

        The bytes are only borrowed until `send` has returned.
        """
        piece = frame if self.framed else frame[format.FRAME.size :]
        self.pending = memoryview(bytes(self.pending) + piece) if self.pending else piece

    def send(self) -> bool:
        """Sends as much of the owed bytes as the client takes now; False when the client has gone.

        Nothing is sent before the client has read its head: the docker SDK for Python throws away what it reads
        together with the head.
        """
        if self.pending and self._is_held():
            self.pending = memoryview(bytes(self.pending))
            return True
        while self.pending:
            try:
                self.pending = self.pending[self._socket.send(self.pending, _FLAGS) :]
            except InterruptedError:
                continue
            except (BlockingIOError, MemoryError):
                self.pending = memoryview(bytes(self.pending))
                return True
            except OSError as error:
                if error.errno == errno.ENOBUFS:
                    self.pending = memoryview(bytes(self.pending))
                    return True
                return False  # whatever the reason is, nothing reaches the client any more
        return True

    def drop_pending(self) -> None:
        """Forgets all bytes that the client is owed."""
        self.pending = memoryview(b"")
        self._fresh, self.held = False, 0.0
        self._stop_replay()

    def begin_replay(self, log: OpenLog) -> None:
        """Makes the client read the log from its beginning."""
        numbers = list_segments(log.directory_fd)
        self.fall_back(log, numbers[0] if numbers else log.number, 0)

    def fall_back(self, log: OpenLog, segment: int, offset: int) -> None:
        """Makes the client read the log from this place on, instead of being given chunks."""
        self.replaying = True
        self._directory_fd = os.dup(log.directory_fd)
        self._open(segment, log.number)
        self._offset = offset if self.segment == segment else 0

    def load(self, log: OpenLog) -> None:
        """Adds the next block of the log to what is owed; ends the replay at the log's end.

        To be called when nothing is pending.
        """
        while self.replaying and not self.pending:
            last = self.segment >= log.number
            room = min(_BLOCK, log.position - self._offset) if last else _BLOCK
            block = os.pread(self._log_fd, room, self._offset) if room > 0 and self._log_fd >= 0 else b""
            taken = self._pick(block)
            self._offset += taken
            if taken == 0 and last:
                self._stop_replay()
            elif taken == 0:
                self._open(self.segment + 1, log.number)

    def _pick(self, block: bytes) -> int:
        """Puts the whole frames that this client wants into `pending`; returns the size of all whole frames."""
        pieces, place = [], 0
        while place + format.FRAME.size <= len(block):
            stream, size = format.FRAME.unpack_from(block, place)
            end = place + format.FRAME.size + size
            if stream not in format.STREAMS or not 0 < size <= format.LARGEST_CHUNK or end > len(block):
                break
            if self.streams & 1 << stream:
                pieces.append(block[place if self.framed else place + format.FRAME.size : end])
            place = end
        self.pending = memoryview(b"".join(pieces))
        return place

    def _open(self, number: int, newest: int) -> None:
        """Opens the first segment that exists among `number` and later ones, at its beginning."""
        if self._log_fd >= 0:
            os.close(self._log_fd)
        self._log_fd, self._offset = -1, 0
        self.segment = newest
        for candidate in list_segments(self._directory_fd):
            if candidate < number:
                continue
            self.segment = candidate
            try:
                self._log_fd = os.open(
                    format.log_name(candidate), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory_fd
                )
                return
            except FileNotFoundError:
                continue  # a rotation removed it before it was opened here

    def _stop_replay(self) -> None:
        self.replaying = False
        for fd in (self._directory_fd, self._log_fd):
            if fd >= 0:
                os.close(fd)
        self._directory_fd = self._log_fd = -1

    # What the client sends.

    def receive(self) -> bytes | None:
        """The client's bytes for stdin; empty once it has ended its sending half, None when there are none now."""
        try:
            return self._socket.recv(format.LARGEST_CHUNK, _FLAGS)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in (errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE):
                return b""
            raise

    def sift(self, data: bytes) -> tuple[bytes, bool]:
        """Returns the part of these bytes that goes to stdin, and whether the detach keys were found in them.

        Bytes that may be the beginning of the keys are withheld until the next bytes decide. Bytes after the keys are
        lost, because the client has asked to be detached there.
        """
        if not self._detach:
            return data, False
        keys, matched = self._detach, self._matched
        joined = keys[:matched] + data
        found = joined.find(keys)
        if found >= 0:
            self._matched = 0
            return joined[:found], True
        self._matched = next(
            size for size in range(min(len(keys) - 1, len(joined)), -1, -1) if joined.endswith(keys[:size])
        )
        return joined[: len(joined) - self._matched], False

    def withheld(self) -> bytes:
        """The withheld bytes, for when it is certain that no more bytes will come."""
        rest, self._matched = self._detach[: self._matched], 0
        return rest

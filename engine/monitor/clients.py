"""One attached client of a container: what it is owed, what it has sent, and where it is in the log.

Run by the monitor, inside the Python pump; the oracle of `_muxer/pump/client.c`. It never blocks: every send and
receive says MSG_DONTWAIT, whatever the mode of the descriptor, which others may share.
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
_SIOCOUTQ = 0x5411  # how much of what was sent the other side has not read yet (unix(7))
HEAD_SECONDS = 10.0  # for so long at most is a head waited for that is not read
_LONGEST_LOOK = 0.02


class Client:
    """A client's socket and its state; the pump decides, this keeps the books.

    sends: it may still send bytes for stdin; hung_up: it takes nothing any more
    pending: what it is owed of chunks it was given. replaying: it reads the log, and is given no chunk until it has
    reached the log's end; segment: the number of the one that it has open
    held: since when (time.monotonic) it is kept from what it is owed until it has read what it was sent before it came
    here, the head of its answer; 0: it is not
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
        # Of a TCP socket the kernel knows what has arrived, not what was read.
        self._fresh = self._socket.family == socket.AF_UNIX
        self._detach = detach
        self._matched = 0  # how many of the detach keys were the last bytes sent
        self._directory_fd = self._log_fd = -1
        self._offset = 0

    @property
    def owed(self) -> bool:
        """True while there is something to send."""
        return not self.hung_up and (bool(self.pending) or self.replaying)

    def close(self) -> None:
        """Ends the connection so that the client reads all that was sent, and then the end.

        A Unix socket that is closed with bytes unread tells its peer ECONNRESET instead of the end.
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
        """True while it has taken too little for the container to be read on."""
        if self.replaying or not self.pending:
            return False
        return not self.held or len(self.pending) >= format.LARGEST_CHUNK

    # What it is owed.

    def look_again(self) -> float | None:
        """In how many seconds to look whether it has read its head; None: nothing that it is owed waits for that."""
        if not self.held:
            return None
        return min(max((time.monotonic() - self.held) / 4, 0.001), _LONGEST_LOOK)

    def _is_held(self) -> bool:
        """Whether it has not read yet what it was sent before it came here. No event tells that it has."""
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
        """Owes it one chunk, given with its header; the bytes are only borrowed until `send` has returned."""
        piece = frame if self.framed else frame[format.FRAME.size :]
        self.pending = memoryview(bytes(self.pending) + piece) if self.pending else piece

    def send(self) -> bool:
        """Sends what it takes now of what it is owed; False when it has gone.

        Nothing goes before it has read the head of its answer: the docker SDK for Python throws away what it reads
        along with that.
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
                return False  # whatever the reason, nothing reaches it any more
        return True

    def drop_pending(self) -> None:
        """Forgets what it is owed."""
        self.pending = memoryview(b"")
        self._fresh, self.held = False, 0.0
        self._stop_replay()

    def begin_replay(self, log: OpenLog) -> None:
        """Sets it at the beginning of the log."""
        numbers = list_segments(log.directory_fd)
        self.fall_back(log, numbers[0] if numbers else log.number, 0)

    def fall_back(self, log: OpenLog, segment: int, offset: int) -> None:
        """Lets it read on in the log, at this place, instead of being given chunks."""
        self.replaying = True
        self._directory_fd = os.dup(log.directory_fd)
        self._open(segment, log.number)
        self._offset = offset if self.segment == segment else 0

    def load(self, log: OpenLog) -> None:
        """Owes it the next block of the log; at the log's end the replay is over. For when nothing is pending."""
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
        """Makes pending of the whole frames in the block that are for this client; how many bytes the frames were."""
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
        """Goes to the first segment from `number` on that is there, at its beginning."""
        if self._log_fd >= 0:
            os.close(self._log_fd)
        self._log_fd, self._offset = -1, 0
        for candidate in range(number, newest + 1):
            self.segment = candidate
            try:
                self._log_fd = os.open(
                    format.log_name(candidate), os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory_fd
                )
                return
            except FileNotFoundError:
                continue  # removed by a rotation before it was asked for

    def _stop_replay(self) -> None:
        self.replaying = False
        for fd in (self._directory_fd, self._log_fd):
            if fd >= 0:
                os.close(fd)
        self._directory_fd = self._log_fd = -1

    # What it sends.

    def receive(self) -> bytes | None:
        """Bytes for stdin; empty when it has ended its sending half, None when there are none now."""
        try:
            return self._socket.recv(format.LARGEST_CHUNK, _FLAGS)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno in (errno.ECONNRESET, errno.ETIMEDOUT, errno.EPIPE):
                return b""
            raise

    def sift(self, data: bytes) -> tuple[bytes, bool]:
        """What of these bytes goes to stdin, and whether the detach keys were found in them.

        Bytes that may be the beginning of the keys are withheld until the next ones decide. What follows the keys is
        lost, as the client wanted.
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
        """The bytes withheld, once it is certain that no more will come."""
        rest, self._matched = self._detach[: self._matched], 0
        return rest

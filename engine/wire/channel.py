"""A channel: one end of a SOCK_SEQPACKET Unix socket that carries messages and descriptors (unix(7), SCM_RIGHTS).

Used in every process of the engine. A datagram is either the message itself or, when that is too large for a socket
buffer, a memfd that holds the message: the first byte tells which. Descriptors received are close-on-exec and belong to
the receiver. Several threads may send on one channel; one thread receives.
"""

import _thread
import array
import os
import select
import socket

from engine.errors import Invalid
from engine.kernel import reasons
from engine.late import TYPE_CHECKING, late

if TYPE_CHECKING:  # loaded with the first message
    from engine.wire import codec
    from engine.wire.schema import Message
else:
    codec = late("engine.wire.codec")

_INLINE = b"J"
ORDINARY = {"Start": b"O", "Exec": b"E"}
"""By the name of a message's class."""
BIRTH, BIRTH_ANEW = b"B", b"b"  # for C alone: a start by a plan (`sandbox.plan`); anew: not by a spare
EXEC_BIRTH, EXEC_BIRTH_ANEW = b"X", b"x"  # the same for an exec
BE_RESOLVER = b"R"  # for the spawner, which prepares no monitor for these
BE_PROXY = b"P"
BE_TRANSPARENT_PROXY = b"T"
_MARKS = {"BeResolver": BE_RESOLVER, "BeProxy": BE_PROXY, "BeTransparentProxy": BE_TRANSPARENT_PROXY}
_IN_MEMFD = b"M"
_INLINE_MAX = 64 * 1024
_MESSAGE_MAX = 64 * 1024 * 1024
_FDS_MAX = 250  # SCM_MAX_FD is 253
# As plain numbers, because Python takes microseconds to join two of its own constants.
_PAIR = int(socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
_LOOK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)
_AT_ONCE = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)


class Channel:
    """A connected SOCK_SEQPACKET socket, owned by the channel."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._sending = _thread.allocate_lock()  # `threading` makes every later fork touch 140 pages

    @classmethod
    def pair(cls) -> tuple["Channel", "Channel"]:
        """Make two channels that are connected to each other."""
        left, right = socket.socketpair(socket.AF_UNIX, _PAIR)
        return cls(left), cls(right)

    @classmethod
    def adopt(cls, descriptor: int) -> "Channel":
        """Make the channel of a descriptor that came with a message. The channel owns it from then on."""
        return cls(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def shut(self) -> bool:
        """Take nothing any more: what the peer sends from now on fails. True if something waits, or if it is gone."""
        poll = select.poll()
        poll.register(self.socket, select.POLLHUP)
        try:
            self.socket.shutdown(socket.SHUT_RD)
            return bool(poll.poll(0)) or bool(self.socket.recv(1, _LOOK))
        except OSError:  # it has gone without having read all
            return True

    def tells(self, kind: "type[Message]") -> bool:
        """Whether the next message, which stays unread, is of this kind, or the connection is at its end.

        False too when nothing has come. Several threads may ask, also while another one receives.
        """
        try:
            data = self.socket.recv(_INLINE_MAX + 1, _LOOK)
            return not data or type(codec.decode(data[1:])) is kind
        except ConnectionResetError:  # as in `_receive`
            return self.tells(kind)
        except (BlockingIOError, Invalid):
            return False

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self, message: "Message", descriptors: tuple[int, ...] | list[int] = (), *, ordinary: bool = False
    ) -> None:
        """Send one message with its descriptors, which the caller still owns. Raises OSError when the peer is gone.

        ordinary: marks a request that a spare may take. The spawner reads nothing but this mark, the first byte, which
            also tells the kind of spare (start or exec)
        """
        if len(descriptors) > _FDS_MAX:
            raise ValueError(f"{len(descriptors)} descriptors do not fit one message")
        payload = codec.encode(message)
        if len(payload) <= _INLINE_MAX:
            kind = type(message).__name__
            mark = ORDINARY[kind] if ordinary else _MARKS.get(kind, _INLINE)
            self._send(mark + payload, descriptors)
            return
        memory = os.memfd_create("message", os.MFD_CLOEXEC)
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(payload)
            self._send(_IN_MEMFD, [memory, *descriptors])
        finally:
            os.close(memory)

    def send_packed(self, datagram: bytes, descriptors: tuple[int, ...] | list[int]) -> None:
        """Send a datagram that is made already. Raises OSError as `send` does."""
        self._send(datagram, descriptors)

    def send_word(self, datagram: bytes, descriptors: tuple[int, ...] | list[int] = ()) -> None:
        """Send a short datagram that is no message of the codec (`engine.wire.waits`), without waiting.

        Raises OSError when the peer is gone, BlockingIOError when too much is unread in the peer's socket.
        """
        # No lock is needed: a datagram arrives whole whichever threads send. A thread that sends a message may hold the
        # lock while it waits for the peer.
        if descriptors:
            socket.send_fds(self.socket, [datagram], list(descriptors), _AT_ONCE)
        else:
            self.socket.send(datagram, _AT_ONCE)

    def _send(self, datagram: bytes, descriptors: tuple[int, ...] | list[int]) -> None:
        with self._sending:
            if descriptors:
                socket.send_fds(self.socket, [datagram], list(descriptors), socket.MSG_NOSIGNAL)
            else:
                self.socket.send(datagram, socket.MSG_NOSIGNAL)

    def receive_packed(self) -> tuple[bytes, list[int]] | None:
        """One datagram, not yet decoded, and its descriptors; None at the end of the connection, whether clean or by a
        reset.

        Raises Invalid for a datagram that was truncated.
        """
        try:
            data, descriptors, flags = self._receive()
        except ConnectionResetError:
            return None
        if not data:
            return None
        if flags & _CUT:
            for descriptor in descriptors:
                os.close(descriptor)
            raise Invalid("a message of the engine came in truncated")
        return data, descriptors

    def _receive(self) -> tuple[bytes, list[int], int]:
        try:
            return receive_with_descriptors(self.socket, _INLINE_MAX + 1, _FDS_MAX + 1)
        except ConnectionResetError:
            # The peer was gone before it had read everything. The kernel reports that once, and before it gives out the
            # peer's own last datagrams.
            return receive_with_descriptors(self.socket, _INLINE_MAX + 1, _FDS_MAX + 1)

    def receive(self) -> "tuple[Message, list[int]] | None":
        """One message and its descriptors; None at the end of the connection.

        Raises Invalid for a message of another version that cannot be understood here, or that was truncated. The
        connection is then still usable, and the message's descriptors are closed.
        """
        packed = self.receive_packed()
        return None if packed is None else unpacked(*packed)


def datagram(message: "Message") -> bytes:
    """A small message as one datagram, for a process that sends it without a channel."""
    return _INLINE + codec.encode(message)


def unpack(data: bytes, descriptors: list[int]) -> "tuple[Message, list[int]]":
    """Decode what `receive_packed` returned; the memfd of a large message is closed. Raises Invalid."""
    if data[:1] != _IN_MEMFD:
        return codec.decode(data[1:]), descriptors
    if not descriptors:
        raise Invalid("not a message of the engine: its memfd is missing")
    try:
        with open(descriptors[0], "rb") as file:
            file.seek(0)
            return codec.decode(file.read(_MESSAGE_MAX)), _others(data, descriptors)
    except OSError as error:
        raise Invalid(f"not a message of the engine: its memfd cannot be read: {reasons.whole(error)}") from error


def unpacked(data: bytes, descriptors: list[int]) -> "tuple[Message, list[int]]":
    """Decode what `receive_packed` returned.

    Raises Invalid for what cannot be decoded, and then closes its descriptors.
    """
    try:
        return unpack(data, descriptors)
    except Invalid:
        for descriptor in _others(data, descriptors):
            os.close(descriptor)
        raise


def link_of(data: bytes, descriptors: list[int]) -> int:
    """The requester's link in what `receive_packed` returned, whether the request can be decoded or not; -1: there is
    none.
    """
    return next(iter(_others(data, descriptors)), -1)


def _others(data: bytes, descriptors: list[int]) -> list[int]:
    """The descriptors of a datagram, without the memfd that is the message itself."""
    return descriptors[1:] if data[:1] == _IN_MEMFD else descriptors


def receive_with_descriptors(sock: socket.socket, size: int, count: int) -> tuple[bytes, list[int], int]:
    """Receive one datagram of at most `size` bytes, its descriptors (at most `count`, close-on-exec), and recvmsg's
    flags.

    Not `socket.recv_fds`: CPython up to 3.13 does not pass its flags on, so the descriptors would be inheritable.
    """
    numbers = array.array("i")
    data, ancillary, flags, _ = sock.recvmsg(size, socket.CMSG_LEN(count * numbers.itemsize), socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    return data, list(numbers), flags

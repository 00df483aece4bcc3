"""A netlink socket to the kernel: sends requests and waits for their acknowledgement, asks for single objects, and
dumps lists.

The kernel handles a request before sendto(2) returns, so the answer can be read at once without a wait. A socket
belongs to the network namespace in which it was made, whatever its thread does afterwards. One thread may use it at a
time.
"""

import socket
from collections.abc import Sequence

from engine.kernel import reasons
from engine.kernel.netlink import message
from engine.kernel.netlink.message import Message, Request

_SHORT = 8192
_LONG = 65536
_SEND_BUFFER = 200_000  # bytes that fit by default, see net.core.wmem_default
_DUMPS = 8
_SOL_NETLINK = 270
_CAP_ACK = 10
_EXT_ACK = 11
_STRICT = 12
_SO_SNDBUFFORCE = 32


class Refused(OSError):
    """The kernel refused a request. The text has the kernel's explanation, if there is one; `index`: of the request."""

    def __init__(self, code: int, words: str, index: int) -> None:
        reason = reasons.of(code)
        super().__init__(code, f"{reason}: {words}" if words else reason)
        self.index = index


class Netlink:
    """A netlink socket of one protocol; a context manager."""

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        """Open the socket. Raises OSError as socket(2) does."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0
        self._strict = False
        self._socket.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)

    def __enter__(self) -> "Netlink":
        """Return the socket itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the socket."""
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def fileno(self) -> int:
        """The socket's descriptor: ioctls on it act in the socket's network namespace."""
        return self._socket.fileno()

    def request(self, kind: int, flags: int, payload: bytes) -> None:
        """Send one message; raise Refused unless the kernel acknowledges it."""
        self.send(((kind, flags, payload),))

    def send(self, requests: Sequence[Request], acknowledged: int = -1) -> None:
        """Send several messages at once; raise Refused for the first one that the kernel refuses.

        rtnetlink carries out each message by itself, also those after a refused one.
        acknowledged: the index of the last message for which an answer is asked (nf_tables: the one before the batch's
        end)
        """
        first = self._sequence + 1
        last = first + (acknowledged % len(requests))
        self._sequence += len(requests)
        parts = []
        for sequence, (kind, flags, payload) in enumerate(requests, first):
            flags |= message.REQUEST | (message.ACKNOWLEDGE if sequence == last else 0)
            parts.append(message.encode(kind, flags, sequence, payload))
        self._sendto(b"".join(parts))
        refused = None
        while True:
            try:
                datagram = self._receive(_SHORT, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if refused is None:
                    raise OSError("the kernel has not answered a netlink request") from None
                break  # the kernel refused one and did not come to the last
            answers = [each for each in message.messages(datagram) if first <= each.sequence <= self._sequence]
            for answer in answers:
                if answer.kind == message.ERROR:
                    code, words = message.refusal(answer)
                    if code and refused is None:
                        refused = Refused(code, words, answer.sequence - first)
            if any(answer.kind == message.ERROR and answer.sequence == last for answer in answers):
                break
        if refused is not None:
            raise refused

    def ask(self, kind: int, payload: bytes) -> list[Message]:
        """The kernel's answer to a request about one object. Raises Refused: ENODEV, ENOENT, ... where
        there is none.
        """
        return self._asked(kind, message.ACKNOWLEDGE, payload)

    def dump(self, kind: int, payload: bytes) -> list[Message]:
        """All objects that the kernel lists; asked again if the list changed meanwhile. Raises Refused."""
        if not self._strict:
            # Without it the kernel ignores the restrictions in the payload.
            self._socket.setsockopt(_SOL_NETLINK, _STRICT, 1)
            self._strict = True
        for _ in range(_DUMPS):
            answers = self._asked(kind, message.DUMP, payload)
            if not any(answer.flags & message.INTERRUPTED for answer in answers):
                break
        return answers

    def _asked(self, kind: int, flags: int, payload: bytes) -> list[Message]:
        self._sequence += 1
        self._sendto(message.encode(kind, flags | message.REQUEST, self._sequence, payload))
        answers: list[Message] = []
        while True:
            for answer in message.messages(self._receive(_LONG)):
                if answer.sequence != self._sequence:
                    continue
                if answer.kind not in (message.ERROR, message.DONE):
                    answers.append(answer)
                    continue
                code, words = message.refusal(answer)
                if code:
                    raise Refused(code, words, 0)
                return answers

    def _receive(self, size: int, flags: int = 0) -> bytes:
        while True:
            datagram, (sender, _) = self._socket.recvfrom(size, flags)
            # 0 is the kernel; in a container's network namespace other processes may write to this socket
            if not sender:
                return datagram

    def _sendto(self, data: bytes) -> None:
        if len(data) > _SEND_BUFFER:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 2 * len(data))
        self._socket.sendto(data, (0, 0))

"""One netlink conversation with the kernel: send requests, wait for their acknowledgement; ask, and read the answer.

The kernel works on a request before sendto returns, so nobody waits and what it has to say is there to be read. A
socket belongs to the network namespace that it was made in, whatever its thread does afterwards. One thread at a time.
"""

import os
import socket
from collections.abc import Sequence

from engine.kernel.netlink import message
from engine.kernel.netlink.message import Message, Request

_SHORT = 8192
_LONG = 65536
_SEND_BUFFER = 200_000  # what fits without asking, as net.core.wmem_default has it
_DUMPS = 8
_SOL_NETLINK = 270
_CAP_ACK = 10
_EXT_ACK = 11
_STRICT = 12
_SO_SNDBUFFORCE = 32


class Refused(OSError):
    """The kernel's refusal, with its own words where it has any; `index`: which of the requests it was."""

    def __init__(self, code: int, words: str, index: int) -> None:
        super().__init__(code, f"{os.strerror(code)}: {words}" if words else os.strerror(code))
        self.index = index


class Netlink:
    """A netlink socket of one protocol; a context manager."""

    def __init__(self, protocol: int = socket.NETLINK_ROUTE) -> None:
        """Raises OSError, as socket(2)."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0
        self._strict = False
        self._socket.setsockopt(_SOL_NETLINK, _CAP_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _EXT_ACK, 1)

    def __enter__(self) -> "Netlink":
        """The socket itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor: ioctls on it are about the socket's network namespace."""
        return self._socket.fileno()

    def request(self, kind: int, flags: int, payload: bytes) -> None:
        """Send one message and raise Refused with the kernel's answer, unless that is success."""
        self.send(((kind, flags, payload),))

    def send(self, requests: Sequence[Request], acknowledged: int = -1) -> None:
        """Send several messages at once; raise Refused for the first one that the kernel refuses.

        Of rtnetlink's the kernel carries out each by itself, also those after a refused one. acknowledged: the index of
            the last one that it is to answer in any case (nf_tables: the one before the end of the batch)
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
                break  # refused before it came to the last one
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
        """What the kernel answers to a request about one thing. Raises Refused: ENODEV, ENOENT, ... for no such."""
        return self._asked(kind, message.ACKNOWLEDGE, payload)

    def dump(self, kind: int, payload: bytes) -> list[Message]:
        """All that the kernel lists; asked again where the list changed meanwhile. Raises Refused."""
        if not self._strict:
            # Or the kernel overlooks what the payload restricts the list to.
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
            if not sender:  # it is the kernel's; in a container's network others may write to this socket
                return datagram

    def _sendto(self, data: bytes) -> None:
        if len(data) > _SEND_BUFFER:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, 2 * len(data))
        self._socket.sendto(data, (0, 0))

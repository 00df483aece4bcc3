"""Calling gRPC methods of a peer: one message for another, or streams in both directions."""

from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Generic, Self, TypeVar

from engine.daemon.buildkit.link import Link
from engine.protocols import grpc, protobuf
from engine.protocols.hpack import Field

Asked = TypeVar("Asked", bound=Mapping[str, object])
Answer = TypeVar("Answer", bound=Mapping[str, object])


class Outgoing(Generic[Asked, Answer]):
    """A call in whose both directions messages may flow; leaving the `with` before its end cancels it."""

    def __init__(
        self,
        link: Link,
        path: str,
        asked: type[Asked],
        answer: type[Answer],
        metadata: list[Field],
        check: Callable[[], None] | None = None,
    ) -> None:
        """path: `/package.Service/Method`; asked, answer: the tables of the messages; check: as `Stream.check`.

        Raises Lost.
        """
        self._asked, self._answer = asked, answer
        self.stream = link.open(
            [
                *(
                    (b":method", b"POST"),
                    (b":scheme", b"http"),
                    (b":path", path.encode()),
                    (b":authority", b"localhost"),
                ),
                *((b"content-type", grpc.CONTENT_TYPE), (b"te", b"trailers")),
                *metadata,
            ],
            check,
        )
        self.stream.check = check

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.cancel()  # which does nothing to a call that has ended

    def send(self, message: Asked) -> None:
        """Send a message. Raises Lost, `grpc.Failed`."""
        self.stream.send(protobuf.encode(self._asked, message))

    def end(self) -> None:
        """Say that this end sends nothing more. Raises Lost."""
        self.stream.end()

    def receive(self) -> Answer | None:
        """The peer's next message; None after its last, if the call went well. Raises Invalid, Lost, `grpc.Failed`."""
        data = self.receive_bytes()
        return None if data is None else protobuf.decode(self._answer, data)

    def receive_bytes(self) -> bytes | None:
        """The same as `receive`, as it came."""
        head = self.stream.answered()
        data = self.stream.receive() if self.stream.trailers is not head else None
        if data is not None:
            return data
        status = grpc.status_of(self.stream.ending())
        if status.code:
            raise grpc.Failed(status)
        return None

    def every(self) -> Iterator[Answer]:
        """The peer's messages."""
        while (found := self.receive()) is not None:
            yield found


def unary(
    link: Link,
    path: str,
    asked: type[Asked],
    answer: type[Answer],
    message: Asked,
    metadata: list[Field] | None = None,
    check: Callable[[], None] | None = None,
) -> Answer:
    """Call a method that takes one message and answers one. check: as `Stream.check`

    Raises Invalid, Lost, `grpc.Failed`.
    """
    with Outgoing[Asked, Answer](link, path, asked, answer, metadata or [], check) as call:
        call.send(message)
        call.end()
        found = call.receive()
        if found is None:
            raise grpc.Failed(grpc.Status(grpc.INTERNAL, "grpc: an answer without a message"))
        call.receive()  # the status, which may say that it failed after all
        return found

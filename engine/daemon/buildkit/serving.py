"""Serving gRPC calls: finds the method of each call that a peer begins, and runs it in a thread of its own.

A service is a table of methods. A method is a function of one `Call`, which it reads and answers; when it returns the
call has ended well, and when it raises the call ends with the status that belongs to the error.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from engine.daemon.buildkit.link import Lost, Stream
from engine.daemon.runtime import worker
from engine.dataclass import dataclass
from engine.errors import Conflict, EngineError, Forbidden, Invalid, NotBuilt, NotFound, Unauthorized, Unavailable
from engine.protocols import grpc, http2frames, protobuf
from engine.protocols.hpack import Field

log = logging.getLogger(__name__)

Asked = TypeVar("Asked", bound=Mapping[str, object])
Answer = TypeVar("Answer", bound=Mapping[str, object])


class Cancelled(EngineError):
    """The client has given up what it asked for."""


# What an error of the engine is in gRPC. What stands nowhere is UNKNOWN, as most of BuildKit's own errors are.
_CODES: tuple[tuple[type[EngineError], int], ...] = (
    (Cancelled, grpc.CANCELLED),
    (NotFound, grpc.NOT_FOUND),
    (Invalid, grpc.INVALID_ARGUMENT),
    (Conflict, grpc.FAILED_PRECONDITION),
    (Forbidden, grpc.PERMISSION_DENIED),
    (Unauthorized, grpc.UNAUTHENTICATED),
    (NotBuilt, grpc.UNIMPLEMENTED),
    (Unavailable, grpc.UNAVAILABLE),
)
_LONGEST_WORDS = 2000  # characters of an error, which may repeat what a client has sent: they travel among the fields
_MOST_CALLS = 100  # of one connection at a time
_HEAD: list[Field] = [(b":status", b"200"), (b"content-type", grpc.CONTENT_TYPE)]
_NO_CALL_HEAD: list[Field] = [(b":status", b"501"), (b"content-type", b"application/json")]
_NO_CALL = (
    b'{"message":"the API is not built in HTTP/2, in which this engine serves calls of gRPC alone: ask in HTTP/1.1"}\n'
)


class Call(Generic[Asked, Answer]):
    """One call as its method sees it.

    stream: on which it comes; metadata: the fields that the client sent with it, the last of a name
    """

    def __init__(self, stream: Stream, asked: type[Asked], answer: type[Answer]) -> None:
        """asked, answer: the tables of the messages"""
        self.stream = stream
        self.metadata: Mapping[bytes, bytes] = dict(stream.fields or ())
        self._asked, self._answer = asked, answer
        self._headed = False

    def receive(self) -> Asked | None:
        """The client's next message; None after its last. Raises Invalid, Lost, `grpc.Failed`."""
        data = self.stream.receive()
        return None if data is None else protobuf.decode(self._asked, data)

    def one(self) -> Asked:
        """The message of a call that has just one."""
        found = self.receive()
        if found is None:
            raise grpc.Failed(grpc.Status(grpc.INTERNAL, "grpc: a call without a message"))
        return found

    def every(self) -> Iterator[Asked]:
        """The client's messages."""
        while (found := self.receive()) is not None:
            yield found

    def head(self, fields: list[Field]) -> None:
        """Begin the answer with more fields than it has anyway. Raises Lost."""
        self._headed = True
        self.stream.headers([*_HEAD, *fields])

    def send(self, answer: Answer) -> None:
        """Send a message. Raises Lost, `grpc.Failed`."""
        if not self._headed:
            self.head([])
        self.stream.send(protobuf.encode(self._answer, answer))

    def finish(self, status: grpc.Status) -> None:
        """End the answer; a peer that still sends is told that nobody reads it. Raises Lost."""
        fields = grpc.trailers(status)
        self.stream.headers(fields if self._headed else [*_HEAD, *fields], ended=True)
        self.stream.cancel(http2frames.NO_ERROR)


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a service. asked, answer: the tables of its messages; run: does it, in a thread of its own"""

    asked: type
    answer: type
    run: Callable[[Call[Any, Any]], None]


class Server:
    """Serves the calls of one connection. find: the method of a path, None where there is none; it may load it"""

    def __init__(self, find: Callable[[str], Method | None]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._running = 0  # guarded by the lock: a call may go on for a while after its stream is over

    def accept(self, stream: Stream) -> None:
        """Have a call that the peer has begun served; it is refused where too many run."""
        with self._lock:
            if self._running >= _MOST_CALLS:
                stream.cancel(http2frames.REFUSED_STREAM)
                return
            self._running += 1
        worker.begin("grpc", lambda: self._serve(stream))

    def _serve(self, stream: Stream) -> None:
        path = dict(stream.fields or ()).get(b":path", b"").decode("ascii", "replace")
        method = self._find(path)
        call: Call[Any, Any] = Call(stream, *((method.asked, method.answer) if method else (object, object)))
        try:
            if call.metadata.get(b"content-type", b"").startswith(grpc.CONTENT_TYPE):
                call.finish(_outcome(method, call, path))
            else:
                stream.headers(_NO_CALL_HEAD)
                stream.end(_NO_CALL)
                stream.cancel(http2frames.NO_ERROR)
        except Lost:  # nobody waits for the outcome
            pass
        except Exception:
            log.exception("the end of %s cannot be told", path)
        finally:
            stream.cancel(http2frames.INTERNAL_ERROR)  # which does nothing to a call that has ended
            with self._lock:
                self._running -= 1


def _outcome(method: Method | None, call: Call[Any, Any], path: str) -> grpc.Status:
    try:
        if method is None:
            raise NotBuilt(f"unknown method {path}")
        if b"grpc-timeout" in call.metadata:
            call.stream.deadline = time.monotonic() + grpc.timeout(call.metadata[b"grpc-timeout"])
        method.run(call)
    except EngineError as error:
        return status_of(error)
    except Exception:
        log.exception("%s failed", path)
        return grpc.Status(grpc.INTERNAL, "internal error: see the daemon's log")
    return grpc.Status()


def status_of(error: EngineError) -> grpc.Status:
    """The status with which a call ends that raised this error."""
    if isinstance(error, grpc.Failed):
        return error.status
    code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.UNKNOWN)
    return grpc.Status(code, str(error)[:_LONGEST_WORDS])

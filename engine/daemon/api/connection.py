"""Serves one HTTP connection of a client: reads request heads and writes answers, one request after the other until
either side ends it.

Each connection has a thread of its own, which owns the socket until a handler takes the socket over. The connection
reads no more of a body than the handler asks for, so the bytes that follow a request stay in the buffer for the next
one. It knows nothing of routes.
"""

import enum
import errno
import logging
import os
import select
import socket
import time
from _thread import allocate_lock
from collections.abc import Callable, Generator

from engine.daemon import busy
from engine.daemon.api.answers import Json, Response
from engine.daemon.api.request import Request
from engine.daemon.api.streams import Body, ClientGone, Stream
from engine.daemon.api.versions import identity
from engine.kernel import gathered
from engine.protocols.http import BadRequest, Head, date, end_of_head, field, parse_head, response_head

log = logging.getLogger(__name__)

taking = allocate_lock()
"""Held while bytes that have come are taken, and while it is decided that none are to be taken any more."""

Application = Callable[[Request], Response | None]

_RECEIVE = 16 * 1024
_LONGEST_KNOWN = 1024  # bytes of a head that is remembered, with what was parsed of it
_SHORT_BODY = 16 * 1024  # bytes of an answer's body that cost less to copy than a second piece costs to send
_DRAIN_LIMIT = 256 * 1024
# What the kernel is asked to keep of a stream that a client has not read yet. It counts twice as much, with its own
# overhead, and at most what net.core.wmem_max allows. With its default of 208 KiB in all, the two processes wait for
# each other ten times as often.
_STREAM_ROOM = 512 * 1024
_LINGER_SECONDS = 1.0
_LINGER_LIMIT = 64 * 1024 * 1024
_LONGEST_POLL_MS = (1 << 31) - 1
_NOTHING = -1  # is no descriptor
_WITHOUT_BODY = frozenset({204, 304})


class Next(enum.Enum):
    """What is to be done with a connection whose answer has gone on (see `Connection.resume`).

    SLEEP: the answer waits again; REST: the client's next request is waited for; END: nothing, it has ended
    SERVE: it is to be served by a thread, which may have to wait for the client
    """

    SLEEP = enum.auto()
    REST = enum.auto()
    END = enum.auto()
    SERVE = enum.auto()


class Connection:
    """A client's connection. `closing` says that the server is to end: then the answer under way is the last one.

    started: the head of an answer has been sent, or the socket given away
    idle: the connection is between two requests
    asked: the whole head of a request was taken, and the next is not waited for yet; set under `taking`
    parted: the client can send no more (`Acceptor.part`); set under `taking`
    parked: its answer waits for something that may never come (see `wait` and `park`)
    hang_up: the events of poll(2) that show that the client is gone
    sleeps_on: the descriptor that a parked answer waits for (see `Request.park`)
    held: says whether another process will answer the current request if the daemon stops (see `Request.shared`)
    full_close: see `Request.full_close`
    """

    def __init__(self, peer: socket.socket, application: Application, closing: Callable[[], bool]):
        self._socket = peer
        self._application = application
        self._closing = closing
        self._buffer = b""
        self._known: tuple[bytes, Head] | None = None  # the last head; most clients send the same one again
        self._last = False
        self._handed_over = False
        # On a Unix socket the kernel tells a close from a half-close; on TCP both are a FIN.
        self.hang_up = select.POLLHUP | select.POLLERR
        self.full_close = peer.family == socket.AF_UNIX
        if not self.full_close:
            self.hang_up |= select.POLLRDHUP
        self._steps: Generator[int, None, None] | None = None  # of an answer that waits
        self._unfinished: Body | None = None  # of the request whose answer has waited
        self._number = 0  # of that request
        self.sleeps_on = _NOTHING
        self.started = False
        self.idle = True
        self.asked = False
        self.parted = False
        self.parked = False
        self.held: Callable[[], bool] = _never

    def serve(self) -> bool:
        """Answer requests until the connection ends or `sleeps`; goes on where it stands.

        True when the caller is to close the socket, False when it was handed over, or is to be watched.
        """
        try:
            if self.sleeps:
                self.resume()
            goes_on = not self.sleeps
            if goes_on and self._unfinished is not None:
                body, self._unfinished = self._unfinished, None
                goes_on = self._finish(body)
            while goes_on and not self.sleeps:
                goes_on = self._serve_one()
        except ClientGone as error:
            log.debug("connection ended: %s", error)
        finally:
            busy.rest()
        return not (self._handed_over or self.sleeps)

    def _serve_one(self) -> bool:
        """Serve one request and its answer; False when it was the last."""
        busy.rest()
        try:
            head = self._read_head()
        except BadRequest as error:
            self._refuse(error)
            return False
        if head is None:
            return False
        self.idle = False
        self.started = False
        self._last = not head.keep_alive or self._closing()
        request = Request(head, self)
        busy.serve(head.method, head.path, head.headers.get("user-agent", ""))
        try:
            answer = self._application(request)
            if self._handed_over:
                return False
            if answer is not None:
                self._send_answer(answer, head.method == "HEAD", request.body)
        finally:
            if not self.sleeps:
                self.held = _never
        if self.sleeps:
            self._unfinished, self._known = request.body, None
            self._number = busy.park()
            self.parked = True
            if self._closing():  # `Acceptor.stop` may have looked before `parked` was set
                self.give_up()
                return False
            return True
        return self._finish(request.body)

    def _read_head(self) -> Head | None:
        """The head of the next request; None when no request follows."""
        data = self._buffer
        while True:
            while data.startswith(b"\r\n"):  # RFC 9112 section 2.2: an empty line before a request is passed over
                data = data[2:]
            end = end_of_head(data) if data else -1
            if end > 0:
                self._buffer = data[end:]
                return self._parsed(data[:end])
            self._buffer = data
            self.idle = not data
            self.asked = False
            if self.idle and self._closing():
                return None
            # The bytes are only peeked at, then taken up to the end of the head. What follows may belong to a process
            # that gets the connection.
            seen = self._receive(_RECEIVE, socket.MSG_PEEK)
            if not seen:
                return None
            end = end_of_head(data + seen)
            with taking:
                if self.parted and not (end > 0 and _is_whole((data + seen)[:end])):
                    return None
                taken = self._receive(end - len(data) if end > 0 else len(seen))
                self.asked = end > 0
            if len(taken) == end and not taken.startswith(b"\r\n"):  # all of a head at once, as nearly always
                return self._parsed(taken)
            data += taken

    def _parsed(self, data: bytes) -> Head:
        """The head that these bytes are. Raises BadRequest."""
        known = self._known
        if known is not None and known[0] == data:
            return known[1]
        head = parse_head(data)
        self._known = (data, head) if len(data) <= _LONGEST_KNOWN else None
        return head

    def _finish(self, body: Body) -> bool:
        """Skip the rest of the request's body; False when the connection must end."""
        ended = body.ended
        if not ended and not body.abandoned and not self._last:
            try:
                ended = body.drain(_DRAIN_LIMIT)
            except BadRequest:
                return False
        if ended and not self._last:
            self.idle = True
            return True
        if not ended:
            self._linger()
        return False

    def _linger(self) -> None:
        """Let the client read the answer before the close: bytes that it still sends would turn the
        close into a reset.
        """
        limit = _LINGER_LIMIT
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(_LINGER_SECONDS)
            while limit > 0 and (data := self._socket.recv(64 * 1024)):
                limit -= len(data)
        except TimeoutError:
            pass  # the client keeps its side open without sending: it has got its answer
        except OSError as error:
            raise ClientGone(str(error)) from error

    def _refuse(self, error: BadRequest) -> None:
        self._last = True
        self._send_answer(Json({"message": str(error)}, 400), False, None)
        self._linger()

    def _send_answer(self, answer: Response, silent: bool, body: Body | None) -> None:
        if body is not None and (body.abandoned or body.left > _DRAIN_LIMIT):
            self._last = True
        status = answer.status
        fields = "".join([field(name, value) for name, value in answer.fields])
        if answer.content_type:
            fields += f"Content-Type: {answer.content_type}\r\n"
        if status not in _WITHOUT_BODY:
            fields += f"Content-Length: {len(answer.body)}\r\n"
        head = self._head(status, fields)
        if len(answer.body) > _SHORT_BODY and not silent:
            self.send_pieces((head, answer.body))
        else:
            self.send(head if silent else head + answer.body)

    def _head(self, status: int, fields: str) -> bytes:
        self.started = True
        close = "Connection: close\r\n" if self._last else ""
        return response_head(status, f"{identity()}{close}{_date(int(time.time()))}{fields}")

    def start_stream(self, asked: Head, status: int, content_type: str, fields: tuple[tuple[str, str], ...]) -> Stream:
        """Send the head of a streamed answer to the request whose head is `asked`. Raises ClientGone."""
        chunked = asked.minor > 0
        lines = field("Content-Type", content_type) + "".join([field(name, value) for name, value in fields])
        if chunked:
            lines += "Transfer-Encoding: chunked\r\n"
        self.send(self._head(status, lines))
        self._make_room()
        return Stream(self, self._socket.fileno(), chunked, asked.method == "HEAD")

    def hand_over(self, status: int, fields: str) -> socket.socket:
        """Send the head and give the socket away (see `Request.hijack`). Raises ClientGone and BadRequest.

        It never waits for the client, because the caller may hold locks that other threads need. A client that has left
        so many answers unread that not even a head finds room counts as gone.
        """
        head = self._last_head(status, fields)
        try:
            if self._socket.send(head, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) < len(head):
                raise ClientGone("the client reads nothing")
        except OSError as error:
            raise ClientGone(str(error)) from error
        return self._given()

    def give(self, status: int, fields: str) -> tuple[socket.socket, bytes]:
        """Give the socket away with the head, which whoever has it is to send. Raises BadRequest."""
        head = self._last_head(status, fields)
        return self._given(), head

    def _last_head(self, status: int, fields: str) -> bytes:
        self._check_leaving()
        return response_head(status, fields + identity())

    def leave(self) -> socket.socket:
        """Give the socket away without a head (see `Request.leave`). Raises BadRequest."""
        self._check_leaving()
        return self._given()

    def _check_leaving(self) -> None:
        if self._buffer:
            raise BadRequest("the client sent more data after a request for an upgrade")
        self.started = True

    def _given(self) -> socket.socket:
        self._handed_over = True
        self._make_room()
        return self._socket

    def _make_room(self) -> None:
        """Let the writer of a stream be further ahead of its client. On TCP the kernel finds the right size itself."""
        if self.full_close:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _STREAM_ROOM)

    def take(self, size: int) -> bytes:
        """At most `size` bytes of the body, buffered ones first; empty at the end of the connection.
        Raises ClientGone.
        """
        if self._buffer:
            data, self._buffer = self._buffer[:size], self._buffer[size:]
            return data
        return self._receive(size)

    def take_into(self, view: memoryview) -> int:
        """Take bytes of the body into the caller's memory, buffered ones first; 0 at the end of the connection. Raises
        ClientGone.
        """
        if self._buffer:
            data = self.take(len(view))
            view[: len(data)] = data
            return len(data)
        try:
            return self._socket.recv_into(view)
        except OSError as error:
            raise ClientGone(str(error)) from error

    def give_back(self, data: bytes) -> None:
        """Return bytes that `take` gave and that belong to the next request."""
        self._buffer = data + self._buffer

    def send(self, data: bytes | memoryview) -> None:
        """Send bytes to the client. Raises ClientGone."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ClientGone(str(error)) from error

    def send_pieces(self, pieces: gathered.Pieces) -> None:
        """Send several pieces to the client without copying them into one first. Raises ClientGone."""
        try:
            for piece in gathered.rest(pieces, self._socket.sendmsg(pieces)):
                self._socket.sendall(piece)
        except OSError as error:
            raise ClientGone(str(error)) from error

    def send_file(self, descriptor: int, start: int, count: int) -> None:
        """Send a part of a file by sendfile(2), without copying it into this process.

        Raises ClientGone, also for a failed sendfile(2), and OSError for a file that is shorter than `start + count`.
        """
        end = start + count
        while start < end:
            try:
                sent = os.sendfile(self._socket.fileno(), descriptor, start, end - start)
            except OSError as error:
                raise ClientGone(str(error)) from error
            if not sent:
                raise OSError(errno.EIO, "the file has become shorter")
            start += sent

    def _receive(self, size: int, flags: int = 0) -> bytes:
        try:
            return self._socket.recv(size, flags)
        except OSError as error:
            raise ClientGone(str(error)) from error

    def send_continue(self, data: bytes) -> None:
        """Ask the client for the body, unless bytes of it are here already or the answer has begun."""
        if not self.started and not self._buffer and not self._told(select.POLLIN):
            self.send(data)

    def abort(self) -> None:
        """End the connection after this answer, which has begun and cannot be completed; one that waits is given up."""
        self._last = True
        if self.sleeps:
            self.give_up()

    def shown_by(self) -> tuple[str, str]:
        """Who the client has shown to be by TLS (see `Request.shown_by`)."""
        shown: tuple[str, str] = getattr(self._socket, "shown_by", ("", ""))
        return shown

    def gone(self) -> bool:
        """True when the client has hung up (see `Request.gone`); takes no bytes from the connection."""
        return self._told(self.hang_up)

    def wait(self, descriptor: int, seconds: float | None) -> bool:
        """Sleep until `descriptor` is readable (see `Request.wait`); takes no bytes from the connection."""
        poll = select.poll()
        poll.register(self._socket, self.hang_up)
        poll.register(descriptor, select.POLLIN)
        self.parked = True
        try:
            if self._closing():  # `Acceptor.stop` may have looked before `parked` was set
                raise ClientGone("the daemon ends")
            told = dict(poll.poll(None if seconds is None else min(seconds * 1000 + 1, _LONGEST_POLL_MS)))
        finally:
            self.parked = False
        if told.get(self._socket.fileno(), 0) & self.hang_up:
            raise ClientGone("the client has hung up")
        return descriptor in told

    def park(self, steps: Generator[int, None, None]) -> None:
        """Begin an answer that waits (see `Request.park`). Raises what its first step raises."""
        self._step(steps)

    def _step(self, steps: Generator[int, None, None]) -> None:
        self.sleeps_on = next(steps, _NOTHING)
        self._steps = None if self.sleeps_on == _NOTHING else steps

    @property
    def sleeps(self) -> bool:
        """Whether an answer waits that no thread waits for: the connection is to be watched."""
        return self._steps is not None

    def resume(self) -> "Next":
        """Go on with the answer that waits; says what is to be done with the connection then."""
        steps, self._steps, self.parked = self._steps, None, False
        if steps is not None:
            try:
                self._step(steps)
            except ClientGone as error:
                log.debug("connection ended: %s", error)
                self._last = True
            except Exception:
                log.exception("the answer that waited has failed")
                self._last = True
        if self.sleeps:
            self.parked = True
            if not self._closing():  # else `Acceptor.stop` may have looked before `parked` was set
                return Next.SLEEP
            self.give_up()
        else:
            self._waited()
        return self._following()

    def _following(self) -> "Next":
        if self._unfinished is not None and not self._unfinished.ended:
            return Next.SERVE
        if self._last:
            return Next.END
        if self._buffer or self._closing():
            return Next.SERVE
        self._unfinished, self.idle, self.asked = None, True, False
        return Next.REST

    def give_up(self) -> None:
        """End the answer that waits, since the client has gone, may not have it, or the daemon ends."""
        steps, self._steps, self.parked, self._last = self._steps, None, False, True
        try:
            if steps is not None:
                steps.throw(ClientGone("the answer is given up"))
        except ClientGone as error:
            log.debug("connection ended: %s", error)
        except Exception:
            log.exception("the answer that waited has failed")
        self._waited()

    def _waited(self) -> None:
        self.held = _never
        busy.unpark(self._number)

    def takes(self) -> bool:
        """Whether a short answer can be sent without waiting for the client to read."""
        return self._told(select.POLLOUT)

    def _told(self, events: int) -> bool:
        """Whether one of these events of poll(2) holds for the socket now."""
        poll = select.poll()
        poll.register(self._socket, events)
        return any(event & events for _, event in poll.poll(0))

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()


def _is_whole(head: bytes) -> bool:
    """Whether nothing is to come of this request but what is there."""
    return head.startswith((b"GET ", b"HEAD ")) and b"upgrade" not in head.lower()


def _never() -> bool:
    return False


_shown_date = (0, "")


def _date(second: int) -> str:
    """The Date line, made once a second."""
    global _shown_date
    shown, line = _shown_date
    if shown != second:
        line = field("Date", date(second))
        _shown_date = (second, line)  # one store of one object: other threads see the old pair or the new one
    return line

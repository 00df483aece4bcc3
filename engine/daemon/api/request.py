"""One API request as its handler sees it: parameters, headers, body, and the calls that stream an answer, wait, or take
over the socket.

A Request belongs to the thread of its connection, from the head to the end of the answer.
"""

import socket
from collections.abc import Callable, Generator

from engine.annotating import Protocol
from engine.daemon.api.answers import RAW_STREAM
from engine.daemon.api.query import Query
from engine.daemon.api.streams import Body, Source, Stream
from engine.daemon.api.versions import NEWEST, Version
from engine.errors import Invalid
from engine.late import TYPE_CHECKING, late
from engine.protocols.http import BadRequest, Head, field

if TYPE_CHECKING:  # loaded with the first body
    from engine.daemon.api import body as bodies
    from engine.daemon.api.body import Mapping, Schema, Struct
    from engine.daemon.jsontext import Object
else:
    bodies = late("engine.daemon.api.body")

JSON_LIMIT = 4 * 1024 * 1024
_HIJACK_BODY_LIMIT = 1024 * 1024


class Carrier(Source, Protocol):
    """What a request needs of its connection; `Request` describes the methods that have no docstring here.

    started: a head has been sent, or the socket given away; full_close: see `Request.full_close`
    held: whether another process will answer if the daemon stops now
    """

    started: bool
    full_close: bool
    held: Callable[[], bool]

    def abort(self) -> None: ...

    def gone(self) -> bool: ...

    def shown_by(self) -> tuple[str, str]: ...

    def wait(self, descriptor: int, seconds: float | None) -> bool: ...

    def park(self, steps: Generator[int, None, None]) -> None: ...

    def fileno(self) -> int: ...

    def start_stream(
        self, asked: Head, status: int, content_type: str, fields: tuple[tuple[str, str], ...]
    ) -> Stream: ...

    def hand_over(self, status: int, fields: str) -> socket.socket:
        """Send this head and give the socket away."""

    def give(self, status: int, fields: str) -> tuple[socket.socket, bytes]:
        """Give the socket away with this head, which is not sent."""

    def leave(self) -> socket.socket:
        """Give the socket away as it is."""


class Request:
    """One request of a client.

    method, path: as sent, the path decoded and without its version; parameters: those in the route's pattern (`id`,
    `name`)
    head: as it was parsed; query: `Query`; headers: by lower-case name; version: the API version asked for, as numbers
    body: a binary file, see `streams.Body`
    """

    __slots__ = ("_connection", "body", "head", "headers", "method", "parameters", "path", "query", "version")

    def __init__(self, head: Head, connection: Carrier):
        self.head = head
        self._connection = connection
        self.method = head.method
        self.path = head.path
        self.query = Query(head.query)
        self.headers = head.headers
        self.version: Version = NEWEST
        self.parameters: dict[str, str] = {}
        self.body = Body(connection, head.length, head.expects_continue)

    @property
    def started(self) -> bool:
        """True once a head has been sent, or the connection handed over: an error can no longer be told by a status."""
        return self._connection.started

    def abort(self) -> None:
        """End the connection where it stands: the answer has begun and cannot be completed."""
        self._connection.abort()

    def json(self, schema: "Struct | Mapping") -> "Object":
        """The body as the value that `schema` (see `schemas`) describes; an empty body is an empty object.

        Raises Invalid in the words of docker's decoder.
        """
        return bodies.decode_body(self._body_bytes(), self.headers.get("content-type", ""), schema)

    def required_json(self, schema: "Struct | Mapping") -> "Object":
        """The body as the value that `schema` describes. Raises Invalid as `json` does, and for an empty body too."""
        return bodies.decode_body(self._body_bytes(), self.headers.get("content-type", ""), schema, required=True)

    def check_json(self, schema: "Schema", *, required: bool = False) -> None:
        """Raise Invalid for a body that `schema` does not allow; the values of a right body are not used."""
        bodies.check_body(self._body_bytes(), self.headers.get("content-type", ""), schema, required)

    def _body_bytes(self) -> bytes:
        data = self.body.read(JSON_LIMIT + 1)
        if len(data) > JSON_LIMIT:
            raise Invalid(f"request body too large: more than {JSON_LIMIT} bytes")
        return data

    def shown_by(self) -> tuple[str, str]:
        """(common name, certificate in PEM) of a client that has shown a certificate; two empty texts for any other."""
        return self._connection.shown_by()

    def gone(self) -> bool:
        """True when the client has hung up. A client that has only finished sending (half-close) is still there."""
        return self._connection.gone()

    def wait(self, descriptor: int, seconds: float | None = None) -> bool:
        """Sleep until `descriptor` is readable (True) or the time is over (False); raises ClientGone if the client goes
        first.

        For an answer that waits for something: one poll(2) watches the descriptor and the client, so the thread need
        not wake up to look for the client.
        """
        return self._connection.wait(descriptor, seconds)

    @property
    def chunked(self) -> bool:
        """Whether a streamed answer is in the chunked coding, which HTTP/1.0 does not know."""
        return self.head.minor > 0

    @property
    def full_close(self) -> bool:
        """Whether the connection can tell that its client has closed it from a mere end of sending."""
        return self._connection.full_close

    def park(self, steps: Generator[int, None, None]) -> None:
        """Answer by these steps, for an answer that may wait for long beside a thousand others: no thread waits for it.

        steps: sends the head, and then yields a descriptor whenever it is to wait for it to become readable. All but
            the first step may run in another thread, which others that wait for the same descriptor share: it must not
            wait for long, and send no more than a few hundred bytes. ClientGone is thrown into it when the client hangs
            up, or the daemon ends.
        Raises what the first step raises. The handler returns None after that.
        """
        self._connection.park(steps)

    def shared(self, held: Callable[[], bool]) -> None:
        """Note that another process has the connection too, and answers it if the daemon stops while `held` returns
        True.
        """
        self._connection.held = held

    def fileno(self) -> int:
        """The connection's descriptor, to be watched (POLLHUP) beside others; the caller must never read from it."""
        return self._connection.fileno()

    def stream(self, status: int, content_type: str, fields: tuple[tuple[str, str], ...] = ()) -> Stream:
        """Send the answer's head now and return the body to be written. Raises ClientGone."""
        return self._connection.start_stream(self.head, status, content_type, fields)

    def await_body(self) -> None:
        """Take all of the body that the client has announced; after this `hijack` and `upgrade` no longer wait for the
        client.

        Raises ClientGone, and BadRequest for a body that does not end.
        """
        if not self.body.drain(_HIJACK_BODY_LIMIT):
            raise BadRequest("request body too large for an upgraded connection")

    def hijack(self, upgrade_ok: bool, content_type: str = RAW_STREAM) -> socket.socket:
        """Leave HTTP: send the head, and return the connected socket, from which nothing but the request was read.

        With `upgrade_ok`, a client that sent any `Upgrade`, be it without a `Connection` that names it, gets 101 with
        the content type. Any other client gets 200 and the stream until the connection closes. The caller owns the
        socket from here on and closes it. Raises ClientGone, and BadRequest for a body that does not end.
        """
        self.await_body()
        return self._connection.hand_over(*self._left(upgrade_ok, content_type))

    def give(self, content_type: str) -> tuple[socket.socket, bytes]:
        """Leave HTTP as `hijack` does, but for the head, which whoever gets the socket is to send: the second value."""
        self.await_body()
        return self._connection.give(*self._left(True, content_type))

    def _left(self, upgrade_ok: bool, content_type: str) -> tuple[int, str]:
        """The status and the fields with which a client leaves HTTP."""
        if upgrade_ok and "upgrade" in self.headers:
            return 101, field("Content-Type", content_type) + "Connection: Upgrade\r\nUpgrade: tcp\r\n"
        # Without an upgrade dockerd names the raw stream's type, whatever the stream is.
        return 200, field("Content-Type", RAW_STREAM)

    def upgrade(self, fields: str) -> socket.socket:
        """Leave HTTP for another protocol than docker's raw stream: send a 101 with the caller's own header lines.

        Returns the socket and raises as `hijack` does.
        """
        self.await_body()
        return self._connection.hand_over(101, fields)

    def leave(self) -> socket.socket:
        """Leave HTTP/1 without a word of this side, for a client that has begun to speak another protocol.

        Raises BadRequest where more than the request has been read.
        """
        return self._connection.leave()

"""The body of a request, read from the connection as it comes, and the body of a streamed answer, written in chunks.

Neither is ever in memory whole. Both belong to the request's thread, and both end with the request.
"""

from engine.annotating import Protocol, Self
from engine.daemon.api.answers import encode_json
from engine.protocols.http import BadRequest, ChunkDecoder

_PIECE = 64 * 1024
# The size of a chunk when a file is sent. Some clients hold a whole chunk in memory.
_FILE_PIECE = 1024 * 1024
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientGone(Exception):
    """The client has hung up, so no answer can reach it. This is no fault of the daemon's; only the connection catches
    it.

    Not an OSError: code that handles failures of files or of other connections must not take it for one of those.
    """


class Source(Protocol):
    """What a request's body needs of its connection (see `connection.Connection`)."""

    def take(self, size: int) -> bytes: ...

    def take_into(self, view: memoryview) -> int: ...

    def give_back(self, data: bytes) -> None: ...

    def send_continue(self, data: bytes) -> None: ...


class Sink(Protocol):
    """What a streamed answer needs of its connection (see `connection.Connection`)."""

    def send(self, data: bytes | memoryview) -> None: ...

    def send_pieces(self, pieces: tuple[bytes | memoryview, ...]) -> None: ...

    def send_file(self, descriptor: int, start: int, count: int) -> None: ...


class Body:
    """A request's body as a binary file. A read raises BadRequest when the body is malformed or ends too early.

    A client that expects `100 Continue` gets it at the first read. So a request that is refused from its head alone
    costs no upload.
    """

    __slots__ = ("_connection", "_decoder", "_expected", "_left", "_pieces", "broken")

    def __init__(self, connection: Source, length: int | None, expects_continue: bool):
        self._connection = connection
        self._decoder = ChunkDecoder() if length is None else None
        self._left = length or 0
        self._pieces: list[bytes] = []
        self._expected = expects_continue
        self.broken = False

    @property
    def ended(self) -> bool:
        """True when all of the body has been taken from the connection."""
        return self._left == 0 if self._decoder is None else self._decoder.ended

    @property
    def abandoned(self) -> bool:
        """True when the bytes that follow on the connection cannot be told: the body was malformed, or was never asked
        for.
        """
        return self.broken or (self._expected and not self.ended)

    @property
    def left(self) -> int:
        """The least number of bytes that are still to come; 0 for a chunked body, whose length is unknown."""
        return self._left

    def read1(self, size: int = _PIECE) -> bytes:
        """At most `size` bytes, as soon as there are any; empty only at the end of the body."""
        if self._pieces:
            return self._from_pieces(size)
        if self.ended:
            return b""
        self._ask()
        if self._decoder is not None:
            while not self._pieces:
                if self._decoder.ended:
                    return b""
                self._decode(self._decoder, self._connection.take(_PIECE))
            return self._from_pieces(size)
        data = self._connection.take(min(size, self._left))
        self._count(len(data))
        return data

    def read(self, size: int = -1) -> bytes:
        """Exactly `size` bytes, fewer only at the end of the body; all of it for a negative size."""
        parts = []
        wanted = size
        while wanted:
            part = self.read1(wanted if size >= 0 else _PIECE)
            if not part:
                break
            parts.append(part)
            wanted -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def put_back(self, data: bytes) -> None:
        """Have this be read again; for a caller that has read all of the body."""
        if data:
            self._pieces.insert(0, data)

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Fill the start of `buffer` with the bytes that are there, and return their number; 0 at the
        end of the body.
        """
        with memoryview(buffer).cast("B") as view:
            if self._decoder is None and self._left:
                self._ask()
                count = self._connection.take_into(view[: self._left])
                self._count(count)
                return count
            data = self.read1(len(view))
            view[: len(data)] = data
            return len(data)

    def readable(self) -> bool:
        """True: `io` and `gzip` ask a file whether it can be read."""
        return True

    def drain(self, limit: int) -> bool:
        """Throw away the rest of the body, about `limit` bytes at most; True when the body has ended."""
        while not self.ended and limit > 0:
            limit -= len(self.read1())
        return self.ended

    def _ask(self) -> None:
        if self._expected:
            self._expected = False
            self._connection.send_continue(_CONTINUE)

    def _count(self, count: int) -> None:
        if not count:
            self.broken = True
            raise BadRequest("unexpected EOF")
        self._left -= count

    def _decode(self, decoder: ChunkDecoder, data: bytes) -> None:
        if not data:
            self.broken = True
            raise BadRequest("unexpected EOF")
        try:
            pieces, used = decoder.feed(data)
        except BadRequest:
            self.broken = True
            raise
        if used < len(data):
            self._connection.give_back(data[used:])
        self._pieces = pieces

    def _from_pieces(self, size: int) -> bytes:
        piece = self._pieces[0]
        if len(piece) <= size:
            return self._pieces.pop(0)
        self._pieces[0] = piece[size:]
        return piece[:size]


def around_last(size: int, *, chunked: bool) -> tuple[bytes, bytes]:
    """The bytes to send before and after the last `size` bytes of a streamed body."""
    return (b"%x\r\n" % size, b"\r\n0\r\n\r\n") if chunked else (b"", b"")


class Stream:
    """An answer whose head is sent and whose body is still being written; ended by `close`, or as a context manager.

    raw_chunks: True when the body is in the chunked coding. Then a caller that writes to `fileno()` itself also writes
    the chunk headers and the last chunk. False for an HTTP/1.0 client: plain bytes until the connection closes.
    """

    __slots__ = ("_connection", "_fileno", "_open", "raw_chunks")

    def __init__(self, connection: Sink, fileno: int, chunked: bool, silent: bool):
        self._connection = connection
        self._fileno = fileno
        self._open = not silent
        self.raw_chunks = chunked

    def write(self, data: bytes) -> None:
        """Send `data` now, as one chunk. Raises ClientGone."""
        if not data or not self._open:
            return
        if not self.raw_chunks:
            self._connection.send(data)
        else:
            self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def write_large(self, data: bytes | memoryview) -> None:
        """Send `data` now, as one chunk, without copying it. Raises ClientGone."""
        if not data or not self._open:
            return
        if not self.raw_chunks:
            self._connection.send(data)
        else:
            self._connection.send_pieces((b"%x\r\n" % len(data), data, b"\r\n"))

    def send_file(self, descriptor: int, count: int) -> None:
        """Send the first `count` bytes of an open file by sendfile(2). Raises ClientGone, and OSError for a shorter
        file.
        """
        for start in range(0, count if self._open else 0, _FILE_PIECE):
            size = min(_FILE_PIECE, count - start)
            if self.raw_chunks:
                self._connection.send(b"%x\r\n" % size)
            self._connection.send_file(descriptor, start, size)
            if self.raw_chunks:
                self._connection.send(b"\r\n")

    def write_each(self, pieces: list[bytes]) -> None:
        """Send several pieces at once, each as a chunk of its own, for clients that take a chunk for a message. Raises
        ClientGone.
        """
        if not pieces or not self._open:
            return
        if self.raw_chunks:
            pieces = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece]
        self._connection.send(b"".join(pieces))

    def json(self, value: object) -> None:
        """Send a value as one line of JSON, which ends in CR LF as in docker's progress streams. Raises ClientGone."""
        self.write(encode_json(value) + b"\r\n")

    def fileno(self) -> int:
        """The connection's descriptor, for a caller that writes the rest of the body itself; `close`
        then adds nothing.
        """
        self._open = False
        return self._fileno

    def end(self, data: bytes) -> None:
        """Send the last bytes of the body together with its end. Raises ClientGone."""
        if self._open and self.raw_chunks and data:
            self._open = False
            before, after = around_last(len(data), chunked=True)
            self._connection.send(before + data + after)
        else:
            self.write(data)
            self.close()

    def close(self) -> None:
        """End the body: send the last chunk of a chunked one. Raises ClientGone."""
        if self._open:
            self._open = False
            if self.raw_chunks:
                self._connection.send(b"0\r\n\r\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After a failure the last chunk is not sent: a body without it shows the client that the answer is incomplete.
        if kind is None:
            self.close()

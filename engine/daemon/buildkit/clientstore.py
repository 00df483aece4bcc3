"""A content store of the client's: the daemon reads and writes blobs in it by their digests, over the session.

Runs on the thread of a build. It speaks containerd's service Content (containerd, api/services/content/v1), and names
the store by a field. What is read is bounded and compared with its digest before anybody uses it.
"""

import contextlib
from collections.abc import Callable, Generator

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing, unary
from engine.daemon.buildkit.messages import content as messages
from engine.daemon.buildkit.sessions import Session
from engine.daemon.images.content import Incoming, digest_of
from engine.daemon.streams import Source
from engine.errors import Invalid, NotFound, Unavailable
from engine.protocols import grpc

_ID = b"buildkit-attachable-store-id"
_PIECE = 1 << 20


class ClientStore:
    """One store. name: the client's; check: raises to end what goes on"""

    def __init__(self, session: Session, name: str, check: Callable[[], None]) -> None:
        self._session = session
        self._fields = [(_ID, name.encode("utf-8", "replace"))]
        self._check = check

    def has(self, digest: str) -> bool:
        """Whether it has the blob. Raises Unavailable."""
        try:
            unary(
                self._session.link,
                methods.CONTENT + "Info",
                messages.InfoRequest,
                messages.InfoResponse,
                {"digest": digest},
                self._fields,
                self._check,
            )
        except grpc.Failed as error:
            if error.status.code == grpc.NOT_FOUND:
                return False
            raise Unavailable(f"the client's content store fails: {error}") from error
        return True

    def put(self, digest: str, source: Source, size: int) -> None:
        """Write a blob that the store may have already. Raises Unavailable, Lost."""
        path = methods.CONTENT + "Write"
        asked, answer = messages.WriteContentRequest, messages.WriteContentResponse
        with Outgoing[messages.WriteContentRequest, messages.WriteContentResponse](
            self._session.link, path, asked, answer, self._fields, self._check
        ) as call:
            try:
                about: messages.WriteContentRequest = {"ref": f"blob-{digest}", "total": size, "expected": digest}
                call.send({**about, "action": messages.STAT_BLOB})
                state = call.receive()
                offset = state["offset"] if state else 0
                if offset:  # a broken export has left a part, which may be of other bytes: it is written anew
                    raise Unavailable("the client's content store has a part of a blob that somebody else writes")
                while data := source.read(_PIECE):
                    call.send({**about, "action": messages.WRITE_BLOB, "offset": offset, "data": data})
                    offset += len(data)
                    call.receive()
                call.send({**about, "action": messages.COMMIT_BLOB, "offset": offset})
                call.receive()
                call.end()
                for _ in call.every():
                    pass
            except grpc.Failed as error:
                if error.status.code != grpc.ALREADY_EXISTS:
                    raise Unavailable(f"the client's content store fails: {error}") from error

    def read(self, digest: str, limit: int) -> bytes:
        """All of a small blob. Raises NotFound, Unavailable, Invalid for one that is too large or is another."""
        data = bytearray()
        for piece in self.pieces(digest):
            data += piece
            if len(data) > limit:
                raise Invalid(f"{digest} is larger than the {limit} bytes allowed")
        if digest_of(bytes(data)) != digest:
            raise Invalid(f"the client's content store has other content for {digest}")
        return bytes(data)

    def fetch(self, digest: str, size: int, into: Incoming) -> None:
        """Read a blob of this size; the caller keeps it. Raises NotFound, Unavailable, Invalid where it is another."""
        with contextlib.closing(self.pieces(digest)) as pieces:
            for piece in pieces:
                if into.size + len(piece) > size:
                    break
                into.write(piece)
        if into.size != size or into.digest != digest:
            raise Invalid(f"the client's content store has other content for {digest}")

    def pieces(self, digest: str) -> Generator[bytes, None, None]:
        """The bytes of a blob, as they come. Raises NotFound, Unavailable."""
        path = methods.CONTENT + "Read"
        asked, answer = messages.ReadContentRequest, messages.ReadContentResponse
        with Outgoing[messages.ReadContentRequest, messages.ReadContentResponse](
            self._session.link, path, asked, answer, self._fields, self._check
        ) as call:
            try:
                call.send({"digest": digest})
                call.end()
                for message in call.every():
                    yield message["data"]
            except grpc.Failed as error:
                if error.status.code == grpc.NOT_FOUND:
                    raise NotFound(f"content digest {digest}: not found in the client's store") from error
                raise Unavailable(f"the client's content store fails: {error}") from error

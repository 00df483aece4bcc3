"""What a session gives to the steps of a build: secrets, and the way to an agent of SSH.

The methods run on the thread that jobs. An agent's socket has a thread that waits for connections, and two for each
connection, which end with it; no connection outlives the step.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing, unary
from engine.daemon.buildkit.messages import session as messages
from engine.daemon.buildkit.messages.session import BytesMessage
from engine.daemon.buildkit.sessions import Session
from engine.daemon.runtime import worker
from engine.errors import EngineError, Invalid, Unavailable
from engine.protocols import grpc

_ABSENT = (grpc.NOT_FOUND, grpc.UNIMPLEMENTED)
_PIECE = 32 * 1024
_LARGEST_SECRET = 500 * 1024  # BuildKit's own bound; a secret lies in memory as long as its step runs
_LOOK_SECONDS = 0.5
_MOST = 32  # connections to one agent at a time


class SessionGiver:
    """A `Giver` that asks a session. check: raises once nobody waits any more, which ends the wait for an answer"""

    def __init__(self, session: Session, check: Callable[[], None]) -> None:
        self._session = session
        self._check = check

    def secret(self, id: str) -> bytes | None:
        """The secret of that name. Raises Lost, `grpc.Failed`, and Invalid for one that is too large."""
        path = methods.SECRETS + "GetSecret"
        asked: messages.GetSecretRequest = {"ID": id}
        try:
            found = unary(
                self._session.link,
                path,
                messages.GetSecretRequest,
                messages.GetSecretResponse,
                asked,
                check=self._check,
            )
        except grpc.Failed as error:
            if error.status.code in _ABSENT:
                return None
            raise
        if len(found["data"]) > _LARGEST_SECRET:
            raise Invalid(f"invalid secret size {len(found['data'])}")
        return found["data"]

    @contextlib.contextmanager
    def agent(self, id: str, path: str) -> Iterator[bool]:
        """A socket at `path` whose connections lead to the client's agent. Raises Lost."""
        if not self._has_agent(id):
            yield False
            return
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            try:
                listening.listen()
                forwarding = _Forwarding(self._session, id, listening)
                worker.begin("agent", forwarding.run)
                try:
                    yield True
                finally:
                    forwarding.end()
            finally:
                os.unlink(path)

    def _has_agent(self, id: str) -> bool:
        path = methods.SSH + "CheckAgent"
        asked: messages.CheckAgentRequest = {"ID": id}
        try:
            unary(
                self._session.link,
                path,
                messages.CheckAgentRequest,
                messages.CheckAgentResponse,
                asked,
                check=self._check,
            )
        except grpc.Failed:
            return False
        return True


class _Forwarding:
    """The connections to one socket. The lock guards the list of them."""

    def __init__(self, session: Session, id: str, listening: socket.socket) -> None:
        self._session = session
        self._id = id
        self._listening = listening
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._over = False

    def run(self) -> None:
        """Take connections until the step ends."""
        while True:
            try:
                peer, _ = self._listening.accept()
            except OSError:  # the step has ended
                return
            with self._lock:
                if self._over or len(self._open) >= _MOST:
                    peer.close()
                    continue
                self._open.append(peer)
            worker.begin("agent connection", lambda peer=peer: self._forward(peer))  # type: ignore[misc]

    def _check(self) -> None:
        """Raise Unavailable once the step has ended."""
        if self._over:
            raise Unavailable("the step that has the agent has ended")

    def end(self) -> None:
        """End all of them."""
        with self._lock:
            self._over = True
            for peer in self._open:
                with contextlib.suppress(OSError):  # it has ended already
                    peer.shutdown(socket.SHUT_RDWR)
        self._listening.shutdown(socket.SHUT_RDWR)

    def _forward(self, peer: socket.socket) -> None:
        field = (b"buildkit.ssh.id", self._id.encode("utf-8", "replace"))
        try:
            with Outgoing[BytesMessage, BytesMessage](
                self._session.link, methods.SSH + "ForwardAgent", BytesMessage, BytesMessage, [field], self._check
            ) as call:
                answered = threading.Event()
                worker.begin("agent answers", lambda: self._answers(call, peer, answered))
                while data := peer.recv(_PIECE):
                    call.send({"data": data})
                call.end()
                # A program that has asked all may still be waiting for the answers.
                while not answered.wait(_LOOK_SECONDS) and not self._over:
                    pass
        except (OSError, EngineError):  # either side has gone, which the other sees by the end of its own connection
            pass
        finally:
            with self._lock:
                self._open.remove(peer)
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def _answers(
        self, call: Outgoing[BytesMessage, BytesMessage], peer: socket.socket, answered: threading.Event
    ) -> None:
        try:
            for message in call.every():
                peer.sendall(message["data"])
        except (OSError, EngineError):
            pass
        finally:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            answered.set()

"""A client's own frontend, as a test plays it: a build that is begun, and calls of LLBBridge that belong to it."""

import contextlib
import socket
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing, unary
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import control, gateway, ops
from engine.errors import EngineError
from tests.harness.daemon import Daemon
from tests.harness.links import LONG, running

UPGRADE = "Connection: Upgrade\r\nUpgrade: h2c\r\n"


def dial(daemon: Daemon, path: str, fields: str = UPGRADE) -> socket.socket:
    """A connection whose upgrade the daemon has accepted."""
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(LONG)
    peer.connect(str(daemon.socket))
    peer.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        more = peer.recv(1)
        assert more, head
        head += more
    assert head.startswith(b"HTTP/1.1 101"), head
    assert b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" in head
    return peer


@dataclass
class Frontend:
    """One build. link: on which its calls go; ended: what Control/Solve has answered, or how it failed

    thread: waits for that
    """

    link: Link
    ref: str = field(default_factory=lambda: uuid.uuid4().hex)
    ended: list[control.SolveResponse | EngineError] = field(default_factory=list)
    thread: threading.Thread = field(default_factory=threading.Thread)

    def __call__(self, method: str, asked: Any) -> Any:
        """Call a method of LLBBridge. Raises what the daemon says."""
        tables = methods.TABLES[methods.GATEWAY + method]
        field = (b"buildkit-controlapi-buildid", self.ref.encode())
        return unary(self.link, methods.GATEWAY + method, *tables, asked, [field])

    def solve(self, definition: ops.Definition, **more: Any) -> str:
        """The id of what a definition is about, which is not made yet."""
        asked = {"Definition": definition, "allowResultReturn": True, "allowResultArrayRef": True, **more}
        found: gateway.SolveResponse = self("Solve", asked)
        assert found["result"] and found["result"]["ref"]
        return found["result"]["ref"]["id"]

    def read(self, ref: str, path: str) -> bytes:
        """A file of it."""
        data = self("ReadFile", {"Ref": ref, "FilePath": path})["Data"]
        assert isinstance(data, bytes)
        return data

    def names(self, ref: str, path: str) -> list[str]:
        """The entries of one of its directories."""
        return [each["path"] for each in self("ReadDir", {"Ref": ref, "DirPath": path})["entries"]]

    def events(self) -> list[control.StatusResponse]:
        """All that the build tells, once it has ended."""
        path = methods.CONTROL + "Status"
        with Outgoing[control.StatusRequest, control.StatusResponse](
            self.link, path, *methods.TABLES[path], []
        ) as call:
            call.send({"Ref": self.ref})
            call.end()
            return list(call.every())


@contextlib.contextmanager
def frontend(daemon: Daemon, **asked: Any) -> Iterator[Frontend]:
    """A build that is begun, whose frontend the test is. It ends with a result of no files."""
    with running(dial(daemon, "/grpc"), True) as link:
        made = Frontend(link)
        path = methods.CONTROL + "Solve"

        def begin() -> None:
            try:
                made.ended.append(unary(link, path, *methods.TABLES[path], {"Ref": made.ref, **asked}))
            except EngineError as error:
                made.ended.append(error)

        made.thread = thread = threading.Thread(target=begin)
        thread.start()
        try:
            yield made
        finally:
            if not made.ended:
                with contextlib.suppress(EngineError):
                    made("Return", {"result": {"ref": {}}})
            thread.join(LONG)
            assert not thread.is_alive()

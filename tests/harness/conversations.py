"""A frontend's containers, and its conversation with their processes."""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.messages import gateway, ops
from tests.harness.frontends import Frontend
from tests.harness.graphs import Writer

IMAGE, PATH = "busybox:latest", methods.GATEWAY + "ExecProcess"


@dataclass
class Told:
    """What was told of one process."""

    out: dict[int, bytes] = field(default_factory=dict)
    code: int | None = None
    order: list[str] = field(default_factory=list)


class Conversation:
    """A call of ExecProcess."""

    def __init__(self, call: Outgoing[gateway.ExecMessage, gateway.ExecMessage]) -> None:
        self.call = call
        self.told: dict[str, Told] = {}

    def begin(self, process: str, room: str, *args: str, **more: Any) -> None:
        meta = {"args": list(args), "env": ["A=b"], "cwd": "/tmp", **more.pop("meta", {})}
        self.call.send({"ProcessID": process, "Init": {"ContainerID": room, "Meta": meta, "Fds": [0, 1, 2], **more}})

    def send(self, process: str, data: bytes = b"", eof: bool = False) -> None:
        self.call.send({"ProcessID": process, "File": {"Fd": 0, "Data": data, "EOF": eof}})

    def until(self, process: str, kind: str, words: bytes = b"") -> Told:
        """Read up to a message of this kind about a process, or up to these words of it."""
        while True:
            message = self.call.receive()
            assert message is not None, (process, kind, self.told)
            about = self.told.setdefault(message["ProcessID"], Told())
            name = next(key for key in ("Started", "File", "Exit", "Done") if message[key] is not None)
            about.order.append(name)
            if name == "File":
                about.out[message["File"]["Fd"]] = about.out.get(message["File"]["Fd"], b"") + message["File"]["Data"]
            if name == "Exit":
                about.code = message["Exit"]["Code"]
            if message["ProcessID"] == process and name == kind and words in b"".join(about.out.values()):
                return about

    def end(self) -> dict[str, Told]:
        """The frontend says nothing more; what is told to the end."""
        self.call.end()
        for message in self.call.every():
            about = self.told.setdefault(message["ProcessID"], Told())
            about.code = message["Exit"]["Code"] if message["Exit"] is not None else about.code
            if message["File"] is not None:
                about.out[message["File"]["Fd"]] = about.out.get(message["File"]["Fd"], b"") + message["File"]["Data"]
        return self.told


@contextlib.contextmanager
def conversing(asked: Frontend) -> Iterator[Conversation]:
    fields = [(b"buildkit-controlapi-buildid", asked.ref.encode())]
    tables = methods.TABLES[PATH]
    with Outgoing[gateway.ExecMessage, gateway.ExecMessage](asked.link, PATH, *tables, fields) as call:
        yield Conversation(call)


def room(asked: Frontend, *mounts: ops.Mount, **more: Any) -> str:
    """A container of busybox that is prepared."""
    writer, id = Writer(), uuid.uuid4().hex
    ref = asked.solve(writer.definition(writer.image(IMAGE)))
    root: ops.Mount = {"dest": "/", "resultID": ref}
    asked("NewContainer", {"ContainerID": id, "Mounts": [root, *mounts], **more})
    return id

"""Plays the client's side of a recorded conversation with a daemon of BuildKit's API against the engine's daemon.

What the client knew only from the other daemon's answers (ids of results, their definitions and documents, digests) is
taken from this one's answers, as the client itself would. The client's directories, secrets and agent are those that
the recording shows; a file that was not asked for then has other bytes of the same number.
"""

import base64
import contextlib
import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.daemon.buildkit import methods
from engine.daemon.buildkit.calling import Outgoing
from engine.daemon.buildkit.link import Link
from engine.daemon.buildkit.messages import fsutil, ops
from engine.daemon.buildkit.serving import Call, Method
from engine.errors import EngineError
from engine.protocols import grpc, protobuf
from engine.protocols.hpack import Field
from tests.harness.daemon import Daemon
from tests.harness.frontends import UPGRADE, dial
from tests.harness.links import LONG, running
from tests.unit.buildkit import recorded

FILES, SECRET, CHECK, FORWARD = (
    methods.FILES + "DiffCopy",
    "/moby.buildkit.secrets.v1.Secrets/GetSecret",
    "/moby.sshforward.v1.SSH/CheckAgent",
    "/moby.sshforward.v1.SSH/ForwardAgent",
)
HEALTH = "/grpc.health.v1.Health/Check"
BRIDGE, CONTROL = methods.GATEWAY, methods.CONTROL
# Calls that last as long as a build, and those that a client makes after it.
LASTING = (CONTROL + "Solve", CONTROL + "Status")
AFTERWARDS = (CONTROL + "ListenBuildHistory", methods.CONTENT + "Info", methods.CONTENT + "Read")
CONFIG = "containerimage.config"
OFFER = "X-Docker-Expose-Session-"


@dataclass
class Played:
    """A call of the recording, decoded, and what this daemon has said to it: `answers`, and `status` at the end."""

    path: str
    then: recorded.Call
    asked: list[Any]
    answered: list[Any]
    answers: list[Any] = field(default_factory=list)
    status: grpc.Status = field(default_factory=grpc.Status)


@dataclass
class Client:
    """What the client of a recording had. files: of its directories, by their names

    then, met: the other daemon's calls, and this one's
    """

    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    secrets: dict[str, bytes] = field(default_factory=dict)
    then: list[recorded.Call] = field(default_factory=list)
    met: list[tuple[str, Mapping[bytes, bytes]]] = field(default_factory=list)

    def learn(self, call: recorded.Call) -> None:
        """Take what a call of the other daemon's shows."""
        self.then.append(call)
        asked, answer = methods.TABLES[call.path]
        told = [protobuf.decode(answer, each) for each in call.answered]
        if call.path == SECRET:
            self.secrets[protobuf.decode(asked, call.asked[0])["ID"]] = told[0]["data"]
        elif call.path == FILES:
            directory = self.files.setdefault(dict(call.fields)[b"dir-name"].decode(), {})
            stats = [each["stat"] for each in told if each["type"] == fsutil.STAT and each["stat"] is not None]
            for number, stat in enumerate(stats):
                data = b"".join(each["data"] for each in told if each["type"] == fsutil.DATA and each["ID"] == number)
                directory.setdefault(stat["path"], data or b"x" * stat["size"])

    def serves(self) -> dict[str, Method]:
        """The methods of its sessions, by their paths."""
        found = {FILES: self._files, SECRET: self._secret, CHECK: self._plain, HEALTH: self._plain}
        return {path: Method(*methods.TABLES[path], run) for path, run in found.items()}

    def _plain(self, call: Call[Any, Any]) -> None:
        path = dict(call.stream.fields or ())[b":path"].decode()
        self.met.append((path, call.metadata))
        call.one()
        call.send({"status": 1} if path == HEALTH else {})

    def _secret(self, call: Call[Any, Any]) -> None:
        self.met.append((SECRET, call.metadata))
        call.send({"data": self.secrets[call.one()["ID"]]})

    def _files(self, call: Call[Any, Any]) -> None:
        self.met.append((FILES, call.metadata))
        followed = [value.decode() for name, value in call.stream.fields or () if name == b"followpaths"]
        there = self.files.get(call.metadata[b"dir-name"].decode(), {})
        names = sorted(name for name in there if not followed or name in followed)
        for name in names:
            size = len(there[name])
            call.send({"type": fsutil.STAT, "stat": {"path": name, "mode": 0o644, "size": size, "modTime": 1}})
        call.send({"type": fsutil.STAT})
        for packet in call.every():
            if packet["type"] == fsutil.FINISH:
                call.send({"type": fsutil.FINISH})
                return
            call.send({"type": fsutil.DATA, "ID": packet["ID"], "data": there[names[packet["ID"]]]})
            call.send({"type": fsutil.DATA, "ID": packet["ID"]})


def _joined(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(LONG * 3)
        assert not thread.is_alive(), "a call does not end"


class Replay:
    """One recording, by its name, that is played once."""

    def __init__(self, daemon: Daemon, name: str, files: dict[str, dict[str, bytes]] | None = None) -> None:
        """files: of directories that the recording does not show, by their names"""
        self._daemon = daemon
        self._files = files or {}
        self.clients: list[Client] = []
        self.calls: list[Played] = []
        self._connections = {each: pieces for each, pieces in recorded.connections() if each.startswith(f"{name}/")}
        # What the other daemon has said → what this one says: results by their ids, documents of images, ...
        self._results: dict[str, Any] = {}
        self._configs: list[tuple[bytes, bytes]] = []
        self._definitions: dict[bytes, ops.Definition] = {}
        self._digests: dict[str, str] = {}

    def play(self) -> None:
        """Play it to its end."""
        with contextlib.ExitStack() as stack:
            for pieces in self._connections.values():
                lines = recorded.head(pieces)
                if lines[0].startswith("POST /session"):
                    offers = [line for line in lines if line.startswith(OFFER)]
                    stack.enter_context(self._session(offers, recorded.calls(pieces)))
            for pieces in self._connections.values():
                calls = recorded.calls(pieces)
                if recorded.head(pieces)[0].startswith("POST /grpc") and calls:
                    with running(dial(self._daemon, "/grpc"), True) as link:
                        self._all(link, calls, stack)

    @contextlib.contextmanager
    def _session(self, lines: list[str], calls: list[recorded.Call]) -> Iterator[None]:
        client = Client({name: dict(files) for name, files in self._files.items()})
        self.clients.append(client)
        for call in calls:
            client.learn(call)
        fields = UPGRADE + "".join(f"{line}\r\n" for line in lines)
        with running(dial(self._daemon, "/session", fields), False, client.serves()):
            yield

    def _all(self, link: Link, calls: list[recorded.Call], stack: contextlib.ExitStack) -> None:
        lasting = []
        for then in calls:
            if then.path not in methods.TABLES:  # what a client tells of itself
                continue
            if then.path == CONTROL + "Session":
                fields = [(name.decode(), value.decode()) for name, value in then.fields]
                lines = [f"{name}: {value}" for name, value in fields if name.startswith(OFFER.lower())]
                stack.enter_context(self._session(lines, []))
                continue
            if then.path in AFTERWARDS:
                _joined(lasting)
            tables = methods.TABLES[then.path]
            asked = [protobuf.decode(tables[0], each) for each in then.asked]
            answered = [protobuf.decode(tables[1], each) for each in then.answered]
            played = Played(then.path, then, [self._changed(each) for each in asked], answered)
            self.calls.append(played)
            if then.path in LASTING:
                lasting.append(threading.Thread(target=self._call, args=(link, played)))
                lasting[-1].start()
            else:
                self._call(link, played)
                self._learn(played)
        _joined(lasting)

    def _call(self, link: Link, played: Played) -> None:
        fields: list[Field] = [(name, value) for name, value in played.then.fields if name.startswith(b"buildkit-")]
        try:
            with Outgoing[Any, Any](link, played.path, *methods.TABLES[played.path], fields) as call:
                for message in played.asked:
                    call.send(message)
                call.end()
                played.answers.extend(call.every())
        except EngineError as error:
            assert isinstance(error, grpc.Failed), error
            played.status = error.status

    def _learn(self, played: Played) -> None:
        """Remember what this daemon has said in the place of the other one."""
        if played.path == BRIDGE + "Solve":
            then, now = played.answered[0]["result"], played.answers[0]["result"]
            self._results[then["ref"]["id"] if then["ref"] else ""] = now
            if then["ref"] and then["ref"]["ops"] is not None:
                self._definitions[then["ref"]["ops"]["ops"][-1]] = now["ref"]["ops"]
            if CONFIG in then["metadata"]:
                self._configs.append((then["metadata"][CONFIG], now["metadata"][CONFIG]))
        if played.path == CONTROL + "ListenBuildHistory":
            for then, now in zip(played.answered, played.answers, strict=False):
                if played.asked[0]["Ref"] and then["record"] and then["record"]["Result"]:
                    pairs = zip(
                        then["record"]["Result"]["Attestations"], now["record"]["Result"]["Attestations"], strict=True
                    )
                    self._digests |= {theirs["digest"]: ours["digest"] for theirs, ours in pairs}

    def _changed(self, message: Any) -> Any:
        """The message as the client would send it to this daemon."""
        found = dict(message)
        if found.get("result") and found["result"].get("ref"):
            found = {"result": self._results.get(found["result"]["ref"]["id"], found["result"])}
        if isinstance(found.get("Ref"), str) and found["Ref"] in self._results:
            found["Ref"] = self._results[found["Ref"]]["ref"]["id"]
        if found.get("digest") in self._digests:
            found |= {"digest": self._digests[found["digest"]], **({"size": 0} if "size" in found else {})}
        for key in ("FrontendInputs",):
            for name, given in (found.get(key) or {}).items():
                found[key] = {**found[key], name: self._definitions[given["ops"][-1]]}
        for key in ("FrontendAttrs", "FrontendOpt"):
            found |= (
                {key: {name: self._option(name, value) for name, value in found[key].items()}} if key in found else {}
            )
        return found

    def _option(self, name: str, value: str) -> str:
        if not name.startswith("input-metadata:"):
            return value
        told = json.loads(value)
        rootfs = json.loads(base64.b64decode(told[CONFIG]))["rootfs"]
        ours = next(our for their, our in self._configs if json.loads(their)["rootfs"] == rootfs)
        return json.dumps({**told, CONFIG: base64.b64encode(ours).decode()})

    def of(self, path: str) -> list[Played]:
        """The calls of one method."""
        return [each for each in self.calls if each.path.endswith(f"/{path}")]

    def met(self) -> list[tuple[str, Mapping[bytes, bytes]]]:
        """What this daemon has asked the client for: the path of each call, and the fields that it began with."""
        return [each for client in self.clients for each in client.met]

    def names(self, played: Played, ours: bool) -> list[str]:
        """The names of the vertices that a Status has told of, each once."""
        told = played.answers if ours else played.answered
        return list(dict.fromkeys(vertex["name"] for each in told for vertex in each["vertexes"]))

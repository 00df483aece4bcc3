"""Definitions of graphs of operations (LLB), written by the engine's own tables from short words."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.daemon.buildkit.messages import ops
from engine.protocols import protobuf


@dataclass(frozen=True)
class Made:
    """An output of an operation that was written."""

    digest: str
    index: int = 0

    def input(self) -> ops.Input:
        """As another operation names it."""
        return {"digest": self.digest, "index": self.index}


@dataclass
class Writer:
    """The operations of one definition, in the order of their writing."""

    written: list[bytes] = field(default_factory=list)
    metadata: dict[str, ops.OpMetadata] = field(default_factory=dict)
    source: ops.Source | None = None

    def add(self, op: Mapping[str, Any], *inputs: Made, **about: Any) -> Made:
        """Write an operation. about: the fields of its metadata"""
        data = protobuf.encode(ops.Op, {"inputs": [each.input() for each in inputs], **op})
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if data not in self.written:
            self.written.append(data)
        if about:
            self.metadata[digest] = about  # type: ignore[assignment]
        return Made(digest)

    def image(self, name: str, **about: Any) -> Made:
        """A source: an image."""
        return self.add({"source": {"identifier": f"docker-image://{name}", "attrs": {}}}, **about)

    def local(self, name: str, attrs: Mapping[str, str] | None = None, **about: Any) -> Made:
        """A source: a directory of the client."""
        return self.add({"source": {"identifier": f"local://{name}", "attrs": dict(attrs or {})}}, **about)

    def run(
        self, root: Made, *args: str, mounts: tuple[ops.Mount, ...] = (), inputs: tuple[Made, ...] = (), **more: Any
    ) -> Made:
        """A command on top of a root; its first output is the root after it. inputs: of the mounts, from 1 on

        more: fields of the operation, with those of `meta` under that name
        """
        meta = {"args": list(args), "env": ["PATH=/bin:/usr/bin"], "cwd": "/", **more.pop("meta", {})}
        about = more.pop("about", {})
        first: ops.Mount = {"input": 0, "dest": "/", "output": 0}
        return self.add({"exec": {"meta": meta, "mounts": [first, *mounts], **more}}, root, *inputs, **about)

    def files(self, *actions: Mapping[str, Any], inputs: tuple[Made, ...] = (), **about: Any) -> Made:
        """Actions on files, each on what the one before has made; the first on the first input, if there is one."""
        written = []
        for place, action in enumerate(actions):
            on = len(inputs) + place - 1 if place else (0 if inputs else -1)
            last = place == len(actions) - 1
            written.append({"input": on, "secondaryInput": -1, "output": 0 if last else -1, **action})
        return self.add({"file": {"actions": written}}, *inputs, **about)

    def definition(self, result: Made | None) -> ops.Definition:
        """The definition that is about this output."""
        if result is None:
            return {}
        end = protobuf.encode(ops.Op, {"inputs": [result.input()]})
        return {"ops": [*self.written, end], "metadata": self.metadata, "Source": self.source}

    def decoded(self, result: Made | None) -> ops.Definition:
        """The same as a server reads it."""
        return protobuf.decode(ops.Definition, protobuf.encode(ops.Definition, self.definition(result)))


MKFILE: dict[str, Any] = {"mode": 0o644, "timestamp": -1}
MKDIR: dict[str, Any] = {"mode": 0o755, "timestamp": -1}
COPY: dict[str, Any] = {"mode": -1, "timestamp": -1, "createDestPath": True}

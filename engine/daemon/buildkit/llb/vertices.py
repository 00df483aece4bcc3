"""Tells a build's progress of the nodes of its graphs, each as a vertex under the digest that the client knows.

Several threads tell at once; the lock is held for a look or a change.
"""

import collections
import threading
import time
from collections.abc import Callable

from engine.daemon.build.graph.node import Node
from engine.daemon.build.graph.telling import Telling
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.progress import STDERR, STDOUT, Progress, Vertex
from engine.daemon.jsontext import Object
from engine.errors import EngineError

_TELL_SECONDS = 0.1
_MOST_FAILURES = 100


class Shown:
    """A `Teller` for the nodes of graphs that clients bring."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._digests: dict[str, str] = {}  # by the keys of nodes; guarded by the lock, as is the next
        self._vertices: dict[str, Vertex] = {}
        self._failures: collections.deque[tuple[BaseException, str]] = collections.deque(maxlen=_MOST_FAILURES)

    def meet(self, node: Node, digest: str) -> None:
        """Learn the digest that the client has for a node."""
        with self._lock:
            self._digests.setdefault(node.key, digest)

    def planned(self, node: Node) -> None:
        """A vertex that has not begun."""
        with self._lock:
            if node.key in self._vertices:
                return
            inputs = dict.fromkeys(self._vertices[each.node.key].digest for each in node.inputs)
            digest = self._digests.get(node.key, "")
            self._vertices[node.key] = self._progress.vertex(node.name, tuple(inputs), digest)

    def begun(self, node: Node) -> Telling:
        """The vertex begins."""
        vertex = self._vertices[node.key]
        vertex.begin()
        return _Told(vertex)

    def ended(self, node: Node, error: BaseException | None) -> None:
        """The vertex ends."""
        if error is not None:
            with self._lock:
                self._failures.append((error, self._vertices[node.key].digest))
        words = "" if error is None else words_of(error) if isinstance(error, EngineError) else "internal error"
        self._vertices[node.key].end(words)

    def failed(self, error: BaseException) -> str:
        """The digest of the node that has ended with this error; empty where none has."""
        with self._lock:
            return next((digest for each, digest in self._failures if each is error), "")


class _Told:
    """A `Telling` of one vertex."""

    def __init__(self, vertex: Vertex) -> None:
        self._vertex = vertex
        self._current = ("", 0)

    def cached(self) -> None:
        """It need not be made."""
        self._vertex.cached()

    def command(self, data: bytes, error: bool) -> None:
        """What its command has written."""
        self._vertex.log(data, STDERR if error else STDOUT)

    def command_ended(self) -> None:
        """Nothing: the bytes were told as they came."""

    def note(self, text: str) -> None:
        """A remark stands among what the command writes."""
        self._vertex.log(text.encode("utf-8", "replace"), STDERR)

    def line(self, line: Object) -> None:
        """A part of a pull has come so far."""
        if line.get("id"):
            detail = line.get("progressDetail") or {}
            status = str(line.get("status", ""))
            ended = status.endswith(("complete", "exists"))
            self._vertex.count(str(line["id"]), detail.get("current", 0), detail.get("total", 0), status, ended)

    def downloading(self, status: str, identity: str = "") -> Callable[[int, int], None]:
        """A function that takes the progress of a download, and tells some of it."""
        next_at = 0.0
        name = identity or status
        self._current = (name, 0)

        def come(current: int, total: int) -> None:
            nonlocal next_at
            self._current = (name, current)
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + _TELL_SECONDS
                self._vertex.count(name, current, max(0, total), name="transferring")

        return come

    def downloaded(self) -> None:
        """All of it has come."""
        name, count = self._current
        self._vertex.count(name, count, count, name="transferring", ended=True)

    def running(self, container: str) -> None:
        """Nothing: a client of BuildKit has no containers of steps."""

    def removed(self, container: str) -> None:
        """Nothing, for the same reason."""

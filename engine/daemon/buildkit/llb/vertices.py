"""Tells a build's progress of the nodes of its graphs, each as a vertex under the digest that the client knows.

Several threads tell at once; the lock is held for a look or a change.
"""

import collections
import threading

from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.graph.solver import Teller
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.buildkit import told
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.progress import Progress, Vertex

_MOST_FAILURES = 100


class Shown(Teller):
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
            if node.key in self._vertices or not node.name:
                return
            below = (self._vertices.get(each.node.key) for each in node.inputs)
            inputs = dict.fromkeys(vertex.digest for vertex in below if vertex is not None)
            digest = self._digests.get(node.key, "")
            self._vertices[node.key] = self._progress.vertex(node.name, tuple(inputs), digest)

    def begun(self, node: Node) -> Telling:
        """The vertex begins."""
        return told.begun(self._vertices.get(node.key))

    def ended(self, node: Node, error: BaseException | None) -> None:
        """The vertex ends."""
        vertex = self._vertices.get(node.key)
        if vertex is None:
            return
        if error is not None:
            with self._lock:
                self._failures.append((error, vertex.digest))
        vertex.end("" if error is None else words_of(error))

    def failed(self, error: BaseException) -> str:
        """The digest of the node that has ended with this error; empty where none has."""
        with self._lock:
            return next((digest for each, digest in self._failures if each is error), "")

"""A build's nodes, told as the vertices of BuildKit's progress.

Belongs to one build; all threads that solve its nodes call it. A node without a name is no vertex.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from engine.daemon.builder.graph.node import Node
from engine.daemon.builder.graph.solver import Stopped, Teller
from engine.daemon.builder.graph.telling import Telling
from engine.daemon.buildkit.faultwords import words_of
from engine.daemon.buildkit.progress import STDERR, STDOUT, Progress, Vertex
from engine.daemon.dockerfile.parser import Instruction
from engine.daemon.jsontext import Object
from engine.kernel import reasons

_TELL_SECONDS = 0.1


class Vertices(Teller):
    """A `Teller` that tells a progress.

    of: the instruction of each node, by the node's key; at: the instruction that has failed, None for none
    failed: digest of the vertex that has failed, empty for none
    """

    def __init__(self, progress: Progress) -> None:
        self.of: Mapping[str, Instruction] = {}
        self.at: Instruction | None = None
        self.failed = ""
        self._progress = progress
        self._vertices: dict[str, Vertex] = {}

    def planned(self, node: Node) -> None:
        """A vertex for a node that has a name."""
        if node.name:
            inputs = [self._vertices[each.node.key].digest for each in node.inputs if each.node.key in self._vertices]
            self._vertices[node.key] = self._progress.vertex(node.name, tuple(inputs), f"sha256:{node.key}")

    def begun(self, node: Node) -> Telling:
        """The node's vertex begins."""
        return begun(self._vertices.get(node.key))

    def ended(self, node: Node, error: BaseException | None) -> None:
        """It ends."""
        vertex = self._vertices.get(node.key)
        if vertex is not None:
            vertex.end("" if error is None else words_of(error))
        if error is not None and not isinstance(error, Stopped) and self.at is None:
            self.at = self.of.get(node.key)
            self.failed = vertex.digest if vertex is not None else ""


class Told(Telling):
    """A `Telling` that tells a vertex."""

    def __init__(self, vertex: Vertex) -> None:
        self._vertex = vertex

    def cached(self) -> None:
        """It was found in the cache."""
        self._vertex.cached()

    def command(self, data: bytes, error: bool) -> None:
        """What a command has written."""
        self._vertex.log(data, STDERR if error else STDOUT)

    def note(self, text: str) -> None:
        """A remark stands among what the step's command writes."""
        self._vertex.log(text.encode("utf-8", "replace"), STDERR)

    def line(self, line: Object) -> None:
        """A part of a pull has come so far."""
        if line.get("id"):
            detail = line.get("progressDetail") or {}
            status = str(line.get("status", ""))
            ended = status.endswith(("complete", "exists", "Pull complete"))
            self._vertex.count(str(line["id"]), detail.get("current", 0), detail.get("total", 0), status, ended)

    def downloading(self, status: str, identity: str = "") -> Callable[[int, int], None]:
        """A function that takes the progress of a download, and tells some of it."""
        return _some(lambda current, total: self._vertex.count(identity or status, current, max(0, total)))


def begun(vertex: Vertex | None) -> Telling:
    """What tells a vertex that begins now; drops all for None."""
    if vertex is None:
        return Telling()
    vertex.begin()
    return Told(vertex)


def warned(progress: Progress, texts: tuple[str, ...]) -> None:
    """Warnings of the whole file stand in a vertex of their own."""
    if texts:
        vertex = progress.vertex("[internal] check of the Dockerfile")
        vertex.begin()
        for text in texts:
            vertex.log(f"{text}\n".encode("utf-8", "replace"), STDERR)
        vertex.end()


def _some(tell: Callable[[int, int], object]) -> Callable[[int, int], None]:
    """A function that passes on the last call, and of the others at most ten a second."""
    next_at = 0.0

    def passed(current: int, total: int) -> None:
        nonlocal next_at
        if time.monotonic() >= next_at or current == total:
            next_at = time.monotonic() + _TELL_SECONDS
            tell(current, total)

    return passed


@contextlib.contextmanager
def transfer(progress: Progress, name: str, what: str) -> Iterator[Callable[[int], None]]:
    """A vertex in which files come from the client; yields what takes the bytes that have come so far.

    what: is transferred, in words
    """
    vertex = progress.vertex(name)
    vertex.begin()
    last = 0
    counting = _some(lambda current, _: vertex.count(f"transferring {what}:", current, name="transferring"))

    def come(count: int) -> None:
        nonlocal last
        last = count
        counting(count, -1)

    try:
        yield come
    except Exception as error:
        vertex.end(reasons.whole(error))
        raise
    vertex.count(f"transferring {what}:", last, name="transferring", ended=True)
    vertex.end()

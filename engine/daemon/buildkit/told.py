"""A build of a Dockerfile, told as the vertices of BuildKit's progress.

Belongs to one build and its thread. Steps that change only the config are no vertices, as with BuildKit.
"""

import contextlib
import time
from collections.abc import Callable, Iterator

from engine.daemon.build.output import Step
from engine.daemon.build.stages import Stage
from engine.daemon.buildkit.progress import STDERR, STDOUT, Progress, Vertex
from engine.daemon.jsontext import Object

_SHOWN = ("FROM", "RUN", "COPY", "ADD", "WORKDIR")
_TELL_SECONDS = 0.1


class Vertices:
    """An `Output` that tells a progress. at: the step that was begun last, None before the first"""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._vertex: Vertex | None = None
        self._stages: dict[int, tuple[str, list[int]]] = {}
        self.at: Step | None = None
        self.failed: str = ""

    def plan(self, stages: tuple[Stage, ...]) -> None:
        """Learn the stages that are built, whose steps the names of vertices count."""
        several = len(stages) > 1
        for stage in stages:
            name = (stage.name or f"stage-{stage.index}") + " " if several else ""
            shown = [step.line for step in (stage.start, *stage.steps) if step.keyword in _SHOWN]
            self._stages[stage.index] = name, shown

    def step(self, step: Step) -> None:
        """A vertex for each step that makes files."""
        self.finish()
        self.at = step
        if step.keyword in _SHOWN and step.stage is not None:
            name, lines = self._stages.get(step.stage, ("", []))
            place = lines.index(step.line) + 1 if step.line in lines else len(lines)
            self._vertex = self._progress.vertex(f"[{name}{place}/{len(lines)}] {step.text}")
            self._vertex.begin()

    def finish(self, error: str = "") -> None:
        """The last step has ended. error: why it failed"""
        if self._vertex is not None:
            self._vertex.end(error)
            self.failed = self._vertex.digest if error else ""
            self._vertex = None

    def cached(self) -> None:
        """The step was found in the cache."""
        if self._vertex is not None:
            self._vertex.cached()

    def command(self, data: bytes, error: bool) -> None:
        """What a command has written."""
        if self._vertex is not None:
            self._vertex.log(data, STDERR if error else STDOUT)

    def note(self, text: str) -> None:
        """A remark stands among what the step's command writes."""
        if self._vertex is not None:
            self._vertex.log(text.encode("utf-8", "replace"), STDERR)

    def line(self, line: Object) -> None:
        """A part of a pull has come so far."""
        if self._vertex is not None and line.get("id"):
            detail = line.get("progressDetail") or {}
            status = str(line.get("status", ""))
            ended = status.endswith(("complete", "exists", "Pull complete"))
            self._vertex.count(str(line["id"]), detail.get("current", 0), detail.get("total", 0), status, ended)

    def downloading(self, status: str, identity: str = "") -> Callable[[int, int], None]:
        """A function that takes the progress of a download, and tells some of it."""
        vertex = self._vertex
        return _some(
            lambda current, total: vertex.count(identity or status, current, max(0, total)) if vertex else None
        )

    def downloaded(self) -> None:
        """Nothing: the last bytes were told."""

    def stands_on(self, identity: str) -> None:
        """Nothing: a client of BuildKit has no images of single steps."""

    def running(self, container: str) -> None:
        """Nothing: a client of BuildKit has no containers of steps."""

    def removed(self, container: str) -> None:
        """Nothing, for the same reason."""

    def command_ended(self) -> None:
        """Nothing: the bytes were told as they came."""

    def image(self, identity: str) -> None:
        """Nothing: the result is told at the end."""

    def warnings(self, texts: tuple[str, ...]) -> None:
        """Warnings of the whole file stand in a vertex of their own."""
        if texts:
            vertex = self._progress.vertex("[internal] check of the Dockerfile")
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
        vertex.end(str(error))
        raise
    vertex.count(f"transferring {what}:", last, name="transferring", ended=True)
    vertex.end()

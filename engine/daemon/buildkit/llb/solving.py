"""What solves the graphs that the frontends of one build ask for: one solver, in the build's workroom.

It is made when the first graph comes, and ends with the build. Any thread of the build may use it; the lock of the
table is held for a look or a change.
"""

import functools
import threading
from collections.abc import Callable

from engine.daemon.build.graph.node import Input
from engine.daemon.build.graph.snapshot import Snapshot
from engine.daemon.buildkit import authority, sessions
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import conversion, definition, explaining, vertices
from engine.daemon.buildkit.llb.conversion import Scope
from engine.daemon.buildkit.llb.definition import Graph
from engine.daemon.buildkit.llb.references import Reference
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.buildkit.sessions import Session
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.errors import EngineError, Invalid

_MOST_BYTES = 256 << 20  # of all definitions of one build, those within others too


class Solving:
    """The solver of one build. shown: tells the build's progress of its nodes"""

    def __init__(self, engine: DaemonParts, job: Job) -> None:
        """Raises NotFound for a session that does not come."""
        session = sessions.find(job.asked["Session"]) if job.asked["Session"] else None
        self.shown = vertices.Shown(job.progress)
        giver = SessionGiver(session, job.check) if session is not None else None
        self._solver = job.workroom(engine).solver(self.shown, giver)
        self._scope = Scope(
            session.id if session is not None else "",
            platforms.host(),
            _credentials(session, job),
            job.captured,
            self.shown.meet,
            self._solver.snapshot,
            self._read,
        )
        self._left = _MOST_BYTES

    def _read(self, asked: ops.Definition) -> Graph:
        """The graph of a definition. What a build was asked for, it remembers to its end. Raises Invalid, NotBuilt."""
        with _changed:
            self._left -= definition.weight(asked)
            if self._left < 0:
                raise Invalid(f"the definitions of a build have at most {_MOST_BYTES} bytes in all")
        return definition.read(asked)

    def reference(self, asked: ops.Definition) -> Reference:
        """The promise of what a definition is about. Raises Invalid, NotBuilt."""
        graph = self._read(asked)
        wanted = conversion.convert(graph, self._scope)
        platform = self._scope.platform
        if graph.result is not None:
            platform = conversion.platform_of(graph.vertices[graph.result[0]], self._scope)
        return Reference(asked, lambda: self._tree(wanted, platform, graph, asked))

    def node(self, asked: ops.Definition) -> Input | None:
        """What a definition is about, for another graph; None for an empty tree. Raises Invalid, NotBuilt."""
        found = conversion.convert(self._read(asked), self._scope)
        if found is not None:
            self._scope.captured.graph(found.node.key, found.index, asked)
        return found

    def _tree(self, wanted: Input | None, platform: Platform, graph: Graph, asked: ops.Definition) -> Tree:
        try:
            found = self._solver.snapshot(wanted) if wanted is not None else Snapshot()
        except EngineError as error:
            raise explaining.explained(error, self.shown.failed(error), graph) from error
        steps = functools.partial(self._solver.steps, wanted) if wanted is not None else tuple
        return Tree(platform, found.parts, {}, steps=steps, described=lambda: asked)


def _credentials(session: Session | None, job: Job) -> Callable[[str], Object | None]:
    if session is None:
        return lambda _domain: None
    return lambda domain: authority.credentials(session, domain, job.check)


_changed = threading.Lock()
_running: dict[str, Solving] = {}  # by the ref of the build; guarded by `_changed`


def of(engine: DaemonParts, job: Job) -> Solving:
    """The one of a build, made now if it was not before. Raises NotFound."""
    with _changed:
        found = _running.get(job.ref)
    if found is not None:
        return found
    made = Solving(engine, job)
    with _changed:
        found = _running.setdefault(job.ref, made)  # another thread may have been faster: what it made is used
    if found is made:
        job.held.callback(lambda: _forget(job.ref))
    return found


def _forget(ref: str) -> None:
    with _changed:
        del _running[ref]

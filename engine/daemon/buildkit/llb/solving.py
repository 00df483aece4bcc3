"""What solves the graphs that the frontends of one build ask for: one solver, in the build's workroom.

It is made when the first graph comes, and ends with the build. Any thread of the build may use it; the lock of the
table is held for a look or a change.
"""

import functools
import threading
from collections.abc import Callable, Sequence

from engine.daemon.builder.graph.node import Input
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.sourcepolicies import Source
from engine.daemon.buildkit import authority, policyevaluator, sessions
from engine.daemon.buildkit.jobs import Job
from engine.daemon.buildkit.llb import conversion, definition, explaining, vertices
from engine.daemon.buildkit.llb.conversion import Scope
from engine.daemon.buildkit.llb.definition import Graph, Vertex
from engine.daemon.buildkit.llb.references import NAMED, Reference
from engine.daemon.buildkit.messages import ops, policy
from engine.daemon.buildkit.offers import SessionGiver
from engine.daemon.buildkit.outcome import Tree
from engine.daemon.buildkit.policyevaluator import PolicyEvaluator
from engine.daemon.buildkit.sessions import Session
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.daemon.parts import DaemonParts
from engine.dataclass import replace
from engine.errors import EngineError, Invalid
from engine.protocols import protobuf

_MOST_BYTES = 256 << 20  # of all definitions of one build, those within others too


class Solving:
    """The solver of one build. shown: tells the build's progress of its nodes"""

    def __init__(self, engine: DaemonParts, job: Job) -> None:
        """Raises NotFound for a session that does not come."""
        session = sessions.find(job.asked["Session"]) if job.asked["Session"] else None
        self.shown = vertices.Shown(job.progress)
        giver = SessionGiver(session, job.check) if session is not None else None
        self._engine, self._job = engine, job
        self._policy = policyevaluator.of(engine, job)
        self._solver = job.workroom(engine).solver(self.shown, giver)
        self._scope = Scope(
            session.id if session is not None else "",
            platforms.host(),
            _credentials(session, job),
            job.captured,
            self.shown.meet,
            self._solver.snapshot,
            lambda asked: self._read(asked, self._policy),
        )
        self._left = _MOST_BYTES

    def _read(self, asked: ops.Definition, evaluator: PolicyEvaluator | None) -> Graph:
        """The graph of a definition, with the sources that are to be used. evaluator: None for one that is judged

        What a build was asked for, it remembers to its end. Raises Forbidden, Invalid, NotBuilt.
        """
        with _changed:
            self._left -= definition.weight(asked)
            if self._left < 0:
                raise Invalid(f"the definitions of a build have at most {_MOST_BYTES} bytes in all")
        graph = definition.read(asked)
        return graph if evaluator is None or not evaluator.active else _judged(graph, evaluator)

    def reference(self, asked: ops.Definition, policies: Sequence[policy.Policy] = ()) -> Reference:
        """The promise of what a definition is about. policies: of the frontend that asks for it

        Raises Forbidden, Invalid, NotBuilt.
        """
        evaluator = policyevaluator.of(self._engine, self._job, after=policies) if policies else self._policy
        graph = self._read(asked, evaluator)
        wanted = conversion.convert(graph, self._scope)
        platform = self._scope.platform
        if graph.result is not None:
            platform = conversion.platform_of(graph.vertices[graph.result[0]], self._scope)
        return Reference(asked, lambda: self._tree(wanted, platform, graph, asked))

    def source(self, source: Source, platform: ops.Platform) -> Input:
        """The files of a source that is judged already, for the graph of a Dockerfile. Raises Invalid, NotBuilt."""
        op: ops.SourceOp = {"identifier": source.identifier, "attrs": dict(source.attributes)}
        data = protobuf.encode(ops.Op, {"source": op, "platform": platform})
        end = protobuf.encode(ops.Op, {"inputs": [{"digest": definition.digest_of(data), "index": 0}]})
        found = self.node(protobuf.decode(ops.Definition, protobuf.encode(ops.Definition, {"ops": [data, end]})), True)
        assert found is not None  # a source is something
        return found

    def node(self, asked: ops.Definition, judged: bool = False) -> Input | None:
        """What a definition is about, for another graph; None for an empty tree. judged: its sources are already

        Raises Forbidden, Invalid, NotBuilt.
        """
        found = conversion.convert(self._read(asked, None if judged else self._policy), self._scope)
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


def _judged(graph: Graph, evaluator: PolicyEvaluator) -> Graph:
    """The graph with the sources that are to be used. Raises as `PolicyEvaluator.judged`."""

    def is_source(vertex: Vertex) -> bool:
        source = vertex.op["source"]
        return source is not None and not source["identifier"].startswith(NAMED)

    asked = [vertex.op for vertex in graph.vertices if is_source(vertex)]
    found = iter(policyevaluator.graph_sources(evaluator, asked))
    vertices = [_with(vertex, next(found)) if is_source(vertex) else vertex for vertex in graph.vertices]
    return replace(graph, vertices=tuple(vertices))


def _with(vertex: Vertex, source: Source) -> Vertex:
    op: ops.SourceOp = {"identifier": source.identifier, "attrs": dict(source.attributes)}
    return replace(vertex, op={**vertex.op, "source": op})


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

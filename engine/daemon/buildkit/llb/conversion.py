"""Turns a definition's operations into nodes of the build graph: each kind by its own function, from one table.

Pure, but for the operations that it makes. What this engine does not do is refused here, before anything is made.
"""

from collections.abc import Callable, Sequence

from engine.daemon.builder import merging
from engine.daemon.builder.graph.node import Input, Node, Operation
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.buildkit.llb import (
    blobsource,
    execution,
    filechanges,
    imagesource,
    laidout,
    localsource,
    nested,
    opnames,
    promised,
    references,
    repositories,
    websource,
    wellformed,
)
from engine.daemon.buildkit.llb.definition import Graph, Vertex
from engine.daemon.buildkit.messages import ops
from engine.daemon.buildkit.provenance.captured import Captured
from engine.daemon.images import platform as platforms
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, replace
from engine.errors import Invalid, NotBuilt

DEEPEST = 8
"""How many builds may lie in each other."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a graph's operations are of. session: id of the build's own; platform: of those that name none

    credentials: gives those for a registry
    captured: is told what the operations use
    met: is told of each node, with the digest of its operation; solve: gives the tree of an output
    read: reads a definition; raises Invalid, also where those of a build are too large in all
    depth: of builds in each other
    """

    session: str
    platform: Platform
    credentials: Callable[[str], Object | None]
    captured: Captured
    met: Callable[[Node, str], None]
    solve: Callable[[Input], Snapshot]
    read: Callable[[ops.Definition], Graph]
    depth: int = 0


def convert(graph: Graph, scope: Scope) -> Input | None:
    """The output that the graph is about; None for no files (scratch). Raises Invalid, NotBuilt."""
    if graph.result is None:
        return None
    outputs: list[Sequence[Input]] = []
    names: list[str] = []
    for vertex in graph.vertices:
        given = [outputs[place][output] for place, output in vertex.inputs]
        names.append(opnames.name_of(vertex, [names[place] for place, _ in vertex.inputs]))
        kind = wellformed.kind(vertex.op)
        if kind == "passthrough":
            passed = vertex.op["passthrough"]
            outputs.append([given[place] for place in passed["outputs"]] if passed else [])
            continue
        if kind == "exec":
            node, made = execution.convert(vertex, given, names[-1])
            execution.capture(vertex, scope.captured)
        else:
            if (merge := vertex.op["merge"]) is not None:
                given = [given[each["input"]] for each in merge["inputs"] if each["input"] != wellformed.EMPTY]
            node = Node(_KINDS[kind](vertex, scope), given, names[-1], vertex.metadata["ignore_cache"])
            made = [node.output(index) for index in range(wellformed.outputs(vertex.op))]
        scope.met(node, vertex.digest)
        outputs.append(made)
    place, output = graph.result
    return outputs[place][output]


def platform_of(vertex: Vertex, scope: Scope) -> Platform:
    """The platform that an operation is for."""
    named = vertex.op["platform"]
    if named is None or not named["OS"]:
        return scope.platform
    return platforms.of({"os": named["OS"], "architecture": named["Architecture"], "variant": named["Variant"]})


def _source(vertex: Vertex, scope: Scope) -> Operation:
    source = vertex.op["source"]
    assert source is not None  # the kind says so
    identifier = source["identifier"]
    scheme, separator, _ = identifier.partition("://")
    if not separator or scheme not in _SOURCES:
        raise NotBuilt(f"the source {identifier[:200]} is not built in this engine")
    return _SOURCES[scheme](source, vertex, scope)


def _image(source: ops.SourceOp, vertex: Vertex, scope: Scope) -> Operation:
    platform = str(platform_of(vertex, scope))
    return imagesource.read(source["identifier"], source["attrs"], platform, scope.credentials, scope.captured.image)


def _local(source: ops.SourceOp, _vertex: Vertex, scope: Scope) -> Operation:
    operation = localsource.read(source["identifier"], source["attrs"], scope.session)
    scope.captured.local(operation.wanted.name)
    return operation


def _web(source: ops.SourceOp, _vertex: Vertex, scope: Scope) -> Operation:
    operation = websource.read(source["identifier"], source["attrs"])
    if operation.secret:
        scope.captured.secret(operation.secret)
    return operation


def _git(source: ops.SourceOp, _vertex: Vertex, _scope: Scope) -> Operation:
    return repositories.read(source["identifier"], source["attrs"])


def _layout(source: ops.SourceOp, vertex: Vertex, scope: Scope) -> Operation:
    return laidout.read(source["identifier"], source["attrs"], scope.session, platform_of(vertex, scope))


def _blob(source: ops.SourceOp, _vertex: Vertex, scope: Scope) -> Operation:
    return blobsource.read(source["identifier"], source["attrs"], scope.session, scope.credentials)


def _result(source: ops.SourceOp, _vertex: Vertex, _scope: Scope) -> Operation:
    if source["attrs"]:
        raise Invalid("a result has no attributes")
    return promised.Promised(source["identifier"])


_SOURCES: dict[str, Callable[[ops.SourceOp, Vertex, Scope], Operation]] = {
    "docker-image": _image,
    "local": _local,
    "git": _git,
    "oci-layout": _layout,
    "http": _web,
    "https": _web,
    **dict.fromkeys(blobsource.SCHEMES, _blob),
    references.NAMED.removesuffix("://"): _result,
}


def _file(vertex: Vertex, _scope: Scope) -> Operation:
    return filechanges.convert(vertex, "file")


def _merge(_vertex: Vertex, _scope: Scope) -> Operation:
    return merging.Merging("merge")


def _diff(vertex: Vertex, _scope: Scope) -> Operation:
    diff = vertex.op["diff"]
    sides = (diff["lower"], diff["upper"]) if diff is not None else (None, None)
    lower, upper = (None if side is None or side["input"] == wellformed.EMPTY else side["input"] for side in sides)
    return merging.Difference(lower, upper, "diff")


def _build(vertex: Vertex, scope: Scope) -> Operation:
    if scope.depth >= DEEPEST:
        raise Invalid(f"builds lie in each other more than {DEEPEST} times")
    deeper = replace(scope, depth=scope.depth + 1)

    def solve(asked: ops.Definition) -> Snapshot:
        wanted = convert(deeper.read(asked), deeper)
        return scope.solve(wanted) if wanted is not None else Snapshot()

    return nested.read(vertex, solve)


_KINDS: dict[str, Callable[[Vertex, Scope], Operation]] = {
    "source": _source,
    "file": _file,
    "merge": _merge,
    "diff": _diff,
    "build": _build,
}

"""Reads a definition (pb.Definition of buildkit's solver/pb/ops.proto): checked operations, each after those it needs.

Pure. An operation is named by the digest of its own bytes, and names those that it needs by theirs. So a circle cannot
be written, and nothing stands for an operation but its bytes. A definition comes from a client or from a frontend's
image, and is hostile: how many operations it has, how long they are and how deep they lie is bounded, and nothing here
calls itself.
"""

import hashlib
from collections.abc import Iterator, Mapping

from engine.daemon.buildkit.llb import knowledge, wellformed
from engine.daemon.buildkit.messages import ops
from engine.dataclass import dataclass
from engine.errors import Invalid
from engine.protocols import protobuf

MOST_OPERATIONS = 10_000
MOST_BYTES = 16 << 20
DEEPEST = 2_000
"""The longest chain of operations of which each needs the one before."""
_NO_METADATA: ops.OpMetadata = protobuf.decode(ops.OpMetadata, b"")


@dataclass(frozen=True, slots=True, eq=False)
class Vertex:
    """One operation. digest: of its bytes, `sha256:...`; op: as the client wrote it; metadata: what is said about it

    inputs: what it needs, each as the place in `Graph.vertices` and the number of that operation's output
    """

    digest: str
    op: ops.Op
    metadata: ops.OpMetadata
    inputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """What a definition says. vertices: those that the result needs, each after all that it needs itself

    result: the place and the output that the definition is about, None for one that is about nothing (scratch)
    sources: the texts from which the operations were made, None where none are told
    """

    vertices: tuple[Vertex, ...]
    result: tuple[int, int] | None
    sources: ops.Source | None = None


def read(definition: ops.Definition) -> Graph:
    """The graph of a definition. Raises Invalid, NotBuilt for what this engine does not know."""
    if not definition["ops"]:
        return Graph((), None)
    found = _decoded(definition["ops"])
    last = found[digest_of(definition["ops"][-1])]
    if len(last["inputs"]) == 0:
        raise Invalid("invalid LLB with no inputs on last vertex")
    wellformed.locations(definition["Source"])
    end = last["inputs"][0]
    order = _ordered(found, end["digest"])
    places = {digest: place for place, digest in enumerate(order)}
    vertices = tuple(_vertex(digest, found[digest], definition["metadata"], places) for digest in order)
    for vertex in vertices:
        for place, output in vertex.inputs:
            _has(vertices[place], output)
    result = places[end["digest"]], end["index"]
    _has(vertices[result[0]], result[1])
    return Graph(vertices, result, definition["Source"])


def weight(definition: ops.Definition) -> int:
    """About the bytes that a definition takes as long as it is known."""
    source = definition["Source"]
    texts = sum(len(info["data"]) for info in source["infos"]) if source is not None else 0
    return sum(map(len, definition["ops"])) + texts


def _decoded(written: list[bytes]) -> dict[str, ops.Op]:
    if len(written) > MOST_OPERATIONS:
        raise Invalid(f"invalid LLB with {len(written)} vertexes: more than {MOST_OPERATIONS} are not taken")
    if sum(map(len, written)) > MOST_BYTES:
        raise Invalid(f"invalid LLB of more than {MOST_BYTES} bytes")
    return {digest_of(data): protobuf.decode(ops.Op, data) for data in written}


def digest_of(data: bytes) -> str:
    """The name of an operation: the digest of its bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _ordered(found: Mapping[str, ops.Op], end: str) -> list[str]:
    """The digests of all that `end` needs, itself last. Raises Invalid for one that is missing, or too deep a graph."""
    depths: dict[str, int] = {}
    waiting: list[tuple[str, Iterator[ops.Input]]] = []

    def visit(digest: str) -> None:
        if digest not in found:
            raise Invalid(f"invalid missing input digest {digest}")
        if len(waiting) >= DEEPEST:
            raise Invalid(f"invalid LLB: a chain of more than {DEEPEST} vertexes")
        waiting.append((digest, iter(found[digest]["inputs"])))

    visit(end)
    while waiting:
        digest, left = waiting[-1]
        below = next((each["digest"] for each in left if each["digest"] not in depths), None)
        if below is not None:
            visit(below)
            continue
        depths[digest] = 1 + max((depths[each["digest"]] for each in found[digest]["inputs"]), default=0)
        if depths[digest] > DEEPEST:  # which the order of the walk can hide
            raise Invalid(f"invalid LLB: a chain of more than {DEEPEST} vertexes")
        waiting.pop()
    return list(depths)


def _vertex(digest: str, op: ops.Op, metadata: Mapping[str, ops.OpMetadata], places: Mapping[str, int]) -> Vertex:
    about = metadata.get(digest, _NO_METADATA)
    knowledge.check(about["caps"])
    wellformed.operation(op)
    for place, each in enumerate(op["inputs"]):
        if each["index"] < 0:
            raise Invalid(f"invalid input {place} output index {each['index']}")
    return Vertex(digest, op, about, tuple((places[each["digest"]], each["index"]) for each in op["inputs"]))


def _has(vertex: Vertex, output: int) -> None:
    if not 0 <= output < (count := wellformed.outputs(vertex.op)):
        raise Invalid(f"invalid output {output} of {vertex.digest}, which has {count}")

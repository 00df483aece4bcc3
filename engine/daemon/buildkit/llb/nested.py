"""The operation `build`: a graph whose definition is a file that another operation has made.

The inner graph is solved by the solver of the outer one, and bounded as every other. How deep such graphs lie in each
other is bounded too.
"""

from collections.abc import Callable, Sequence

from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.buildkit.llb import showing
from engine.daemon.buildkit.llb.definition import Vertex
from engine.daemon.buildkit.messages import ops
from engine.daemon.images.layers import merged
from engine.dataclass import dataclass, field
from engine.errors import Invalid, NotBuilt
from engine.protocols import protobuf

_INPUT, _FILENAME = "buildkit.llb.definition", "llbbuild.filename"
_LLB_BUILDER = -1


@dataclass(frozen=True, slots=True)
class Nested:
    """The operation. source: the number of the input that has the file; solve: gives what a definition is about"""

    source: int
    filename: str
    solve: Callable[[ops.Definition], Snapshot] = field(compare=False)

    kind = "regular"
    title = "build"

    def key(self) -> str:
        """Which file it is."""
        return digest("build", self.source, self.filename)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: the operations within are kept."""
        return None

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Read the definition and solve it. Raises EngineErrors."""
        layers = inputs[self.source].layers
        data = merged.within(work.engine.images.layer_root, layers, lambda root: showing.file(root, self.filename))
        with work.waiting():
            return (self.solve(protobuf.decode(ops.Definition, data)),)


def read(vertex: Vertex, solve: Callable[[ops.Definition], Snapshot]) -> Nested:
    """The operation of a vertex. Raises Invalid, NotBuilt."""
    build = vertex.op["build"]
    assert build is not None  # the kind says so
    if build["builder"] != _LLB_BUILDER:
        raise NotBuilt("a build by another builder than that of graphs is not built in this engine")
    if set(build["attrs"]) - {_FILENAME} or set(build["inputs"]) - {_INPUT} or build["ops"] is not None:
        raise NotBuilt("a build with more than the file of its definition is not built in this engine")
    if _INPUT not in build["inputs"] or build["inputs"][_INPUT]["input"] < 0:
        raise Invalid(f"no {_INPUT} input found for a build")
    return Nested(build["inputs"][_INPUT]["input"], build["attrs"].get(_FILENAME) or _INPUT, solve)

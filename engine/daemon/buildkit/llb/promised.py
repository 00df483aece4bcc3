"""The source `engine-result`: a tree that this daemon has promised to a frontend, of this build or of another one.

An operation of the build graph. The tree is made by the build that promised it; this one keeps its layers too.
"""

from collections.abc import Sequence

from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.buildkit.llb import references
from engine.dataclass import dataclass
from engine.errors import NotFound


@dataclass(frozen=True, slots=True)
class Promised:
    """The operation. identifier: of the source"""

    identifier: str

    kind = "internal"
    title = references.TITLE

    def key(self) -> str:
        """What it is by definition."""
        return digest("engine-result", self.identifier)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: it is kept by its own build."""
        return None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree. Raises NotFound where it has gone, and what its making raises."""
        with work.waiting():
            tree = references.named(self.identifier).tree()
        return (Snapshot(tuple(self._kept(work, part) for part in tree.parts)),)

    def _kept(self, work: Work, part: Part) -> Part:
        found = work.keeper.part(part.layer.diff_id, part.descriptor)
        if found is None:
            raise NotFound(f"the layer {part.layer.diff_id} of {self.title} has gone")
        return found

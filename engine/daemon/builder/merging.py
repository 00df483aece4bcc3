"""Operations on whole trees: several laid over each other (merge), and what one has that another has not (diff).

Both make nothing anew where the layers that are there already say it.
"""

from collections.abc import Sequence

from engine.daemon.builder.graph.node import chains, digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.containers.contents import changes, commit
from engine.daemon.images.image import MOST_LAYERS
from engine.daemon.images.layers import merged
from engine.errors import Invalid


class Merging:
    """An operation that lays its inputs over each other, the first one lowest, with all of their layers."""

    kind = "regular"

    def __init__(self, title: str) -> None:
        self.title = title

    def key(self) -> str:
        """There is one such operation."""
        return digest("merge")

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> None:
        """None: no layer is made."""

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The layers of all inputs. Raises Invalid for too many."""
        parts = tuple(part for each in inputs for part in each.parts)
        if len(parts) > MOST_LAYERS:
            raise Invalid(f"max depth exceeded: {MOST_LAYERS} layers are allowed")
        return (Snapshot(parts),)


class Difference:
    """An operation that makes the tree by which one input becomes the other: its own layers, or a layer of changes.

    lower, upper: numbers of the inputs, None for an empty tree
    """

    kind = "regular"

    def __init__(self, lower: int | None, upper: int | None, title: str) -> None:
        self.title = title
        self._lower, self._upper = lower, upper

    def key(self) -> str:
        """Which input is which."""
        return digest("diff", self._lower, self._upper)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str | None:
        """The contents of both; None where no layer is made."""
        lower, upper = self._sides(inputs)
        return None if _beyond(lower, upper) is not None else digest("diff", chains((lower, upper)))

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree. Raises SystemFailure."""
        lower, upper = self._sides(inputs)
        found = _beyond(lower, upper)
        return (found if found is not None else _compared(work, lower, upper),)

    def _sides(self, inputs: Sequence[Snapshot]) -> tuple[Snapshot, Snapshot]:
        lower = Snapshot() if self._lower is None else inputs[self._lower]
        return lower, Snapshot() if self._upper is None else inputs[self._upper]


def _beyond(lower: Snapshot, upper: Snapshot) -> Snapshot | None:
    """The layers of `upper` above those of `lower`; None where it does not stand on them."""
    count = len(lower.parts)
    same = [part.layer.diff_id for part in upper.parts[:count]] == [part.layer.diff_id for part in lower.parts]
    return Snapshot(upper.parts[count:]) if same else None


def _compared(work: Work, lower: Snapshot, upper: Snapshot) -> Snapshot:
    layer_root, below = work.engine.images.layer_root, Snapshot()
    with (
        merged.held(layer_root, lower.layers) as old,
        merged.held(layer_root, upper.layers) as new,
        work.keeper.incoming() as blob,
    ):
        made = changes.between(old, new, lambda top, found: commit.unpacked(top, found, work.keeper.session, blob))
        return below.above(work.keeper.kept(blob, *made, below)) if made else below

"""What a build's files begin with: an image of the store, a tree that is there already (`Given`), or nothing.

The image itself is found or pulled before (see `bases`), as its config decides what the graph looks like.
"""

from collections.abc import Sequence

from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.images.image import Image


class Pulled:
    """An operation without inputs: the files of an image."""

    kind = "regular"

    def __init__(self, image: Image, title: str) -> None:
        self.title = title
        self.image = image

    def key(self) -> str:
        """The layers of the image, as nothing else of it is taken."""
        return digest("image", self.image.diff_ids)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> None:
        """None: the store keeps images."""

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The image's layers, which the build keeps. Raises NotFound where they were removed meanwhile."""
        work.told.cached()
        return (tree(work, self.image, self.title),)


def tree(work: Work, image: Image, name: str) -> Snapshot:
    """The files of an image, which the build keeps; those of a hidden one have a record in the cache.

    Raises NotFound where they were removed meanwhile.
    """
    if not image.hidden:
        return work.keeper.image(image)
    return work.kept(
        digest("base", image.manifest), Pulled.kind, f"pulled from {name}", lambda: work.keeper.image(image)
    )


class Nothing:
    """An operation without inputs: a tree without files, as FROM scratch begins with."""

    kind, title = "regular", ""

    def key(self) -> str:
        """There is one such tree."""
        return digest("scratch")

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> None:
        """None: there is nothing to keep."""

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The empty tree."""
        return (Snapshot(),)


class Given:
    """An operation without inputs: a tree that the build has already, and keeps."""

    kind, title = "regular", ""

    def __init__(self, tree: Snapshot) -> None:
        self._tree = tree

    def key(self) -> str:
        """The tree's contents."""
        return digest("tree", self._tree.chain)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> None:
        """None: it is there."""

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree."""
        return (self._tree,)

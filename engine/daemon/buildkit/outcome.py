"""What a build of BuildKit's API has made, as exporters take it: a tree of files and a config for each platform.

Plain values. The job of the build keeps their layers and blobs from removal until it ends.
"""

from collections.abc import Callable, Mapping, Sequence

from engine.daemon.builder.graph.snapshot import Part, Snapshot
from engine.daemon.builder.graph.traced import Step
from engine.daemon.buildkit.messages import ops
from engine.daemon.images.image import Image
from engine.daemon.images.platform import Platform
from engine.daemon.jsontext import Object
from engine.dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Brought:
    """An attestation that a frontend brings with its result.

    files: where it lies; path: of the file with the predicate, or of the directory with whole statements (bundled)
    kind: URI of the predicate's type, which a bundle may leave empty; metadata: what exporters do with it
    subjects: what it is about, each with its name, its digests, and whether it is the result
    """

    files: Snapshot
    path: str
    bundled: bool
    kind: str
    metadata: Mapping[str, bytes]
    subjects: Sequence[tuple[str, Sequence[str], bool]]


@dataclass(frozen=True, slots=True)
class Tree:
    """The result for one platform.

    parts: the layers of its files, the lowest first; none for an empty tree
    config: the document of the image that it would be (OCI image-spec, config.md), with rootfs and history
    image: the image of the store that it is already; None where an exporter has to make one
    steps: gives what the nodes that lead to it have made, each after its inputs, for caches that travel
    beside: further trees of the build that a bill of materials is about, by their names; fresh: what is made of the
    tree is not taken from the cache either
    brought: what its frontend attests of it
    described: gives the graph of operations that it was made by, None where nobody knows it
    id: the name that its frontend has for the platform; empty for the platform's own
    """

    platform: Platform
    parts: tuple[Part, ...]
    config: Object
    image: Image | None = None
    steps: Callable[[], Sequence[Step]] = tuple
    beside: Mapping[str, Snapshot] = field(default_factory=dict)
    fresh: bool = False
    brought: Sequence[Brought] = ()
    described: Callable[[], ops.Definition | None] = lambda: None
    id: str = ""

    @property
    def platform_id(self) -> str:
        """What tells it from the trees of other platforms, such as `linux/arm64`."""
        return self.id or str(self.platform)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a build. trees: one a platform, in the order in which the client asked for them

    metadata: what the frontend adds, such as `containerimage.config`, by its name
    indexed: it is one for each platform, also where there is one alone
    """

    trees: tuple[Tree, ...]
    metadata: dict[str, bytes] = field(default_factory=dict)
    indexed: bool = False

    @property
    def several(self) -> bool:
        """Whether it is one for each platform, as an index is."""
        return self.indexed or len(self.trees) > 1

"""A directory on the host that a build reads, such as its context: what names it, and its contents as a snapshot.

The directory belongs to the build, and changes only between builds. Most operations read it in place: they have a
`Local` where others have an input. `LocalTree` is for those that need a tree.
"""

from collections.abc import Callable, Mapping, Sequence

from engine.daemon.builder.copying import packing, prepare
from engine.daemon.builder.copying.remembered import Remembered
from engine.daemon.builder.copying.request import Base, Request
from engine.daemon.builder.graph.node import Input, digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.tar.chunkstream import Stream
from engine.dataclass import dataclass, field, replace


@dataclass(slots=True, eq=False)
class Local:
    """A directory. root: its descriptor, open until the build ends; id: names it among those of all builds

    loading: the node that brings its files here, None where they are here already; `root` is good once it is solved
    remembered: digests of its files that earlier builds have made, None where none are kept
    identifier, attributes: where it comes from, as a source of BuildKit's graphs; empty where nobody asks
    """

    root: int
    id: str
    loading: Input | None = None
    remembered: Remembered | None = None
    identifier: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)


class Loading:
    """An operation without inputs that brings a directory's files here. Its one output is empty: who needs it has the
    `Local`.

    fetch: brings them, and returns the descriptor of the directory; raises EngineErrors
    """

    kind, title = "source.local", ""

    def __init__(self, local: Local, fetch: Callable[[], int]) -> None:
        self.local, self._fetch = local, fetch

    def key(self) -> str:
        """Which directory it is."""
        return digest("loading", self.local.id)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> None:
        """None: the directory may be another one in the next build."""

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Bring it."""
        with work.waiting():
            self.local.root = self._fetch()
        return (Snapshot(),)


class LocalTree:
    """An operation without inputs that makes a snapshot of a directory.

    owners: files keep their owners, or else all are root's; select: paths and patterns of what is taken
    """

    kind = "source.local"

    def __init__(self, local: Local, title: str, select: tuple[str, ...] = (".",), owners: bool = False) -> None:
        self.title = title
        self.local = local
        self._request = Request(select, "/", keep_owners=owners, parents=select != (".",), shown="source")

    def key(self) -> str:
        """Which directory it is, and what of it."""
        return digest("local", self.local.id, self._request.sources_named, self._request.keep_owners)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The contents."""
        return digest("local", self._prepared(work).digest)

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The directory's files as one layer. Raises EngineErrors."""
        request = self._asked(work)
        base = Base((), work.engine.images.layer_root, work.scratch)
        chunks = packing.chunks(self.local.root, request, base)
        return (Snapshot().above(work.keeper.packed(Stream(chunks), Snapshot())),)

    def _prepared(self, work: Work) -> prepare.Prepared:
        return prepare.prepare(self.local.root, self._asked(work))

    def _asked(self, work: Work) -> Request:
        return replace(self._request.checked(work.check), remembered=self.local.remembered)

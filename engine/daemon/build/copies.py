"""COPY and ADD: an operation that copies files of a directory, of another tree or of a server into a tree.

What decides its outcome are the files that it copies. So a change of any other file of its source keeps its result.
"""

import contextlib
from collections.abc import Iterator, Sequence

from engine.daemon.build.copying import fetching, packing, prepare
from engine.daemon.build.copying.prepare import Prepared
from engine.daemon.build.copying.request import Base, Request
from engine.daemon.build.graph.node import digest
from engine.daemon.build.graph.snapshot import Snapshot
from engine.daemon.build.graph.work import HOST_NETWORK, Work
from engine.daemon.build.localtree import Local
from engine.daemon.images.layers import merged
from engine.daemon.tar.chunkstream import Stream
from engine.dataclass import replace


class Copying:
    """An operation on the tree that is copied into, and on the one that is copied from where there is no `local`.

    local: the directory that is copied from; urls: those sources of the request that are to be fetched
    checksum: that the one URL's contents must have, or empty; prepared: the sources if they are digested already
    """

    kind = "regular"

    def __init__(
        self,
        request: Request,
        title: str,
        local: Local | None = None,
        urls: Sequence[str] = (),
        checksum: str = "",
        prepared: Prepared | None = None,
    ) -> None:
        self.title = title
        self.request, self.local = request, local
        self.urls, self.checksum = tuple(urls), checksum
        self._prepared = prepared
        self._fetched: dict[str, fetching.Fetched] | None = None  # of the one build that the operation belongs to

    def key(self) -> str:
        """The request, and the directory."""
        source = self.local.id if self.local else ""
        return digest("copy", source, self.request.decides(), list(self.urls), self.checksum)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The tree that is copied into, and the files that are copied."""
        return digest("copy", inputs[0].chain, self._ready(work, inputs).digest)

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree with the files. Raises EngineErrors in docker's words."""
        self._ready(work, inputs)
        request = self._asked(work)
        with self._source(work, inputs) as root:
            chunks = packing.chunks(root, request, _base(work, inputs[0]))
            return (inputs[0].above(work.keeper.packed(Stream(chunks), inputs[0])),)

    def _ready(self, work: Work, inputs: Sequence[Snapshot]) -> Prepared:
        """The sources, fetched and digested; that is done once."""
        if self._prepared is None:
            with self._source(work, inputs) as root:
                self._prepared = prepare.prepare(root, self._asked(work), _base(work, inputs[0]))
        return self._prepared

    def _asked(self, work: Work) -> Request:
        if self._fetched is None:
            self._fetched = {url: self._fetch(work, url) for url in self.urls}
        found = self._fetched
        sources = tuple(found.get(each, each) if isinstance(each, str) else each for each in self.request.sources)
        remembered = self.local.remembered if self.local is not None else None
        return replace(self.request.checked(work.check), sources=sources, remembered=remembered)

    def _fetch(self, work: Work, url: str) -> fetching.Fetched:
        with work.waiting():
            told = work.told.downloading("Downloading")
            keep = self.request.keep_git_dir
            found = fetching.fetch(
                url,
                self.checksum,
                work.scratch,
                told,
                giver=work.giver,
                check=work.check,
                keep_git_dir=keep,
                loopback=work.may(HOST_NETWORK),
            )
        work.told.downloaded()
        return found

    @contextlib.contextmanager
    def _source(self, work: Work, inputs: Sequence[Snapshot]) -> Iterator[int]:
        if self.local is not None:
            yield self.local.root
            return
        layers = inputs[1].layers if len(inputs) > 1 else ()
        with merged.held(work.engine.images.layer_root, layers) as root:
            yield root


def _base(work: Work, tree: Snapshot) -> Base:
    return Base(tree.layers, work.engine.images.layer_root, work.scratch)

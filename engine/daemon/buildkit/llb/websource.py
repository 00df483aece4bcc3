"""The sources `http` and `https`: a tree of one file that a server gives.

An operation of the build graph. Without a checksum the server is asked in each build; what it gave decides what those
find in the cache that use it.
"""

import os
import stat
from collections.abc import Iterator, Sequence

from engine.daemon.build.copying import fetching
from engine.daemon.build.copying.fetching import Fetched
from engine.daemon.build.graph.node import digest
from engine.daemon.build.graph.snapshot import Snapshot
from engine.daemon.build.graph.work import HOST_NETWORK, Work
from engine.daemon.buildkit.llb import layered
from engine.daemon.tar.writer import Chunk, Packer
from engine.dataclass import dataclass
from engine.errors import Invalid, NotBuilt
from engine.literals import natural
from engine.redact import redacted

_MOST_MODE, _MOST_ID = 0o7777, (1 << 32) - 2
_MODE = 0o600
_CHECKSUM, _NAME, _PERMISSIONS, _USER, _GROUP = "http.checksum", "http.filename", "http.perm", "http.uid", "http.gid"
UNNAMED = "download"
"""The name of a file that neither its URL nor its server names."""


@dataclass(frozen=True, slots=True)
class WebSource:
    """The operation. checksum: `sha256:...` or empty; filename: of the file, empty for what the server calls it"""

    url: str
    checksum: str = ""
    filename: str = ""
    mode: int = _MODE
    owner: tuple[int, int] = (0, 0)

    kind = "regular"

    @property
    def title(self) -> str:
        """What BuildKit calls it."""
        return self.url

    def key(self) -> str:
        """What it is by definition."""
        return digest("http", self.url, self.checksum, self.filename, self.mode, *self.owner)

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """Its definition where that says the contents, or else None."""
        return digest("http result", self.key()) if self.checksum else None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Download the file. Raises NotFound, SystemFailure, Invalid."""
        with work.waiting():
            told = work.told.downloading("downloading", redacted(self.url))
            fetched = fetching.fetch(
                self.url,
                self.checksum,
                work.scratch,
                told,
                shown="http source",
                check=work.check,
                loopback=work.may(HOST_NETWORK),
            )
            work.told.downloaded()
        try:
            return (layered.tree(work.keeper, self._chunks(fetched), work.check),)
        finally:
            os.unlink(fetched.stored, dir_fd=fetched.directory)

    def _chunks(self, fetched: Fetched) -> Iterator[Chunk]:
        def shown(found: os.stat_result) -> os.stat_result:
            seconds = found.st_mtime_ns // 1_000_000_000
            mode = stat.S_IFREG | self.mode
            return os.stat_result((mode, 0, 0, 1, *self.owner, found.st_size, seconds, seconds, seconds))

        packer = Packer(shown_as=shown)
        yield from packer.one(fetched.directory, fetched.stored, self.filename or fetched.name or UNNAMED)
        yield packer.end()


def read(url: str, attrs: dict[str, str]) -> WebSource:
    """The operation of a source. Raises Invalid, NotBuilt."""
    for key in attrs:
        if key not in (_CHECKSUM, _NAME, _PERMISSIONS, _USER, _GROUP):
            raise NotBuilt(f"the attribute {key} of a download is not built in this engine")
    name = attrs.get(_NAME, "")
    if name in (".", "..") or "/" in name or "\0" in name:
        raise Invalid(f"invalid file name {name} of a download")
    mode = natural(attrs.get(_PERMISSIONS, "0"), _MOST_MODE, octal=True)
    owner = tuple(natural(attrs.get(key, "0"), _MOST_ID) for key in (_USER, _GROUP))
    if mode is None or owner[0] is None or owner[1] is None:
        raise Invalid(f"invalid mode or owner of the download {url}")
    return WebSource(url, attrs.get(_CHECKSUM, ""), name, mode or _MODE, (owner[0], owner[1]))

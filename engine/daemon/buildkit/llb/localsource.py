"""The source `local`: the tree of a directory of the client, of which only what changed travels.

An operation of the build graph. The client is asked in each build; what is in the directory decides what those find in
the cache that use it. A directory whose files are the same as before, but for their times, is the tree that was made of
it then. All files are root's, as with BuildKit.
"""

import os
from collections.abc import Iterator, Sequence

from engine.daemon.builder import mirrors
from engine.daemon.builder.copying import prepare
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import Work
from engine.daemon.buildkit import filesync, sessions
from engine.daemon.buildkit.llb import layered
from engine.daemon.jsontext import parse
from engine.daemon.tar.writer import Chunk, Packer
from engine.dataclass import dataclass
from engine.errors import Invalid, NotBuilt, NotFound

_SCHEME = "local://"
_SESSION, _HINT, _UNIQUE = "local.session", "local.sharedkeyhint", "local.unique"
_INCLUDED, _EXCLUDED, _FOLLOWED = "local.includepattern", "local.excludepatterns", "local.followpaths"
_DIFFER = "local.differ"
_KNOWN = (_SESSION, _HINT, _UNIQUE, _INCLUDED, _EXCLUDED, _FOLLOWED, _DIFFER)
_MOST_PATTERNS = 10_000


@dataclass(frozen=True, slots=True)
class LocalSource:
    """The operation. session: id of the one that has the directory; wanted: what of it; hint: for the mirror's name

    anew: all files travel, whatever the mirror has
    """

    session: str
    wanted: filesync.Wanted
    hint: str = ""
    anew: bool = False

    kind = "source.local"

    @property
    def title(self) -> str:
        """What BuildKit calls it."""
        return _SCHEME + self.wanted.name

    def key(self) -> str:
        """What it is by definition."""
        wanted = self.wanted
        return digest(
            *("local", self.session, wanted.name, wanted.followed, wanted.included, wanted.excluded),
            *(self.hint, self.anew),
        )

    def identity(self, _work: Work, _inputs: Sequence[Snapshot]) -> str | None:
        """None: what the client has is not known before."""
        return None

    def make(self, work: Work, _inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """Ask the client. Raises NotFound, Invalid, Unavailable, SystemFailure."""
        with work.waiting():
            session = sessions.find(self.session)
            name = session.shared_key or session.id
            choice = "\n".join((*self.wanted.followed, "", *self.wanted.included))
            unique = (os.urandom(16).hex(),) if self.anew else ()
            key = (name, self.hint, self.wanted.name, choice, *unique)
            told = work.told.downloading(f"transferring {self.wanted.name}:")
            with mirrors.held(
                work.engine.settings.data_root, key, f"local source for {self.wanted.name}", work.check
            ) as mirror:
                filesync.receive(session.link, self.wanted, mirror, lambda count: told(count, -1), work.check)
                work.told.downloaded()
                contents = digest("local files", _contents(work, mirror.root))
                return (
                    work.kept(
                        contents,
                        self.kind,
                        self.title,
                        lambda: layered.tree(work.keeper, _chunks(mirror.root), work.check),
                    ),
                )


def _contents(work: Work, root: int) -> str:
    """The digest of what is in a mirror, without its times. Raises EngineErrors."""
    remembered = mirrors.remembered(root)
    request = Request((".",), "/", shown="source", check=work.check, remembered=remembered)
    try:
        return prepare.prepare(root, request).digest
    finally:
        remembered.save()


def _chunks(root: int) -> Iterator[Chunk]:
    top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
    try:
        packer = Packer()
        yield from packer.contents(top, "")
        yield packer.end()
    finally:
        os.close(top)


def read(identifier: str, attrs: dict[str, str], session: str) -> LocalSource:
    """The operation of a source. session: that of the build, empty for none. Raises Invalid, NotBuilt, NotFound."""
    session = attrs.get(_SESSION) or session
    if not session:
        raise NotFound(f"no active session has the directory {identifier}")
    for key in attrs:
        if key not in _KNOWN:
            raise NotBuilt(f"the attribute {key} of a directory of the client is not built in this engine")
    if attrs.get(_DIFFER, "metadata") not in ("metadata", "none"):
        raise Invalid(f"invalid {_DIFFER}: {attrs[_DIFFER]}")
    wanted = filesync.Wanted(
        identifier.removeprefix(_SCHEME),
        _patterns(attrs, _FOLLOWED),
        _patterns(attrs, _EXCLUDED),
        _patterns(attrs, _INCLUDED),
    )
    return LocalSource(session, wanted, attrs.get(_HINT, ""), attrs.get(_DIFFER) == "none")


def _patterns(attrs: dict[str, str], key: str) -> tuple[str, ...]:
    if not attrs.get(key):
        return ()
    found = parse(attrs[key].encode("utf-8", "surrogateescape"), key)
    if not isinstance(found, list) or len(found) > _MOST_PATTERNS or not all(isinstance(each, str) for each in found):
        raise Invalid(f"invalid {key}: a list of texts is expected")
    return tuple(found)

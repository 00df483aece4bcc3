"""Finds what the names of a Dockerfile stand for that are no stages: named contexts of the client first, then images.

Belongs to the build's thread. What a context consists of becomes a node of the graph, which is solved only where a step
needs it. A directory of the client is left without what its own .dockerignore says.
"""

from collections.abc import Callable, Mapping

from engine.daemon.build import namedcontexts, urls
from engine.daemon.build.converting import Base
from engine.daemon.build.git.gitsource import GitSource
from engine.daemon.build.graph.node import Input, Node
from engine.daemon.build.namedcontexts import NamedContext
from engine.daemon.build.sourcepolicies import SourcePolicy
from engine.daemon.buildkit import filesync, layoutsource
from engine.daemon.buildkit.clientfiles import ClientFiles
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.layoutsource import LayoutSource
from engine.daemon.buildkit.llb.localsource import LocalSource
from engine.daemon.buildkit.llb.websource import WebSource
from engine.daemon.buildkit.sessions import Session
from engine.daemon.buildkit.wishes import Asked
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.images import platform as platforms
from engine.dataclass import replace
from engine.errors import Invalid, NotFound

Inputs = Mapping[str, Callable[[], Input | None]]
"""What a frontend was given beside its options, by name: each returns a tree of the graph, None for an empty one."""

_SCRATCH = "scratch"
_FILE = "context"  # what the file of a URL is called


class ContextFinding:
    """The named contexts of one build.

    find: returns the image of a name for a platform as written, or empty; session: the build's own
    check: raises once nobody waits any more; policy: which images and other sources may be used
    """

    def __init__(
        self,
        asked: Asked,
        files: ClientFiles,
        session: Session,
        check: Callable[[], None],
        inputs: Inputs,
        find: Callable[[str, str], Base],
        policy: SourcePolicy,
    ) -> None:
        self._asked, self._files, self._session, self._check = asked, files, session, check
        self._inputs, self._find, self._policy = inputs, find, policy

    def stands_for(self, name: str, platform: str) -> NamedContext | None:
        """The named context that a name stands for. platform: as written, or empty. Raises Invalid."""
        wanted = platforms.wanted(platform)
        return namedcontexts.find(self._asked.contexts, name, str(wanted))

    def find(self, name: str, platform: str) -> Base:
        """What a name means that is no stage. Raises EngineErrors."""
        found = self.stands_for(name, platform)
        return self._image(name, platform) if found is None else _KINDS[found.kind](self, found, platform)

    def _image(self, name: str, platform: str) -> Base:
        return self._find(self._policy.image(name), platform)

    def _named_image(self, found: NamedContext, platform: str) -> Base:
        return Base(None, {}) if found.place == _SCRATCH else self._image(found.place, platform)

    def _input(self, found: NamedContext, _platform: str) -> Base:
        if found.place not in self._inputs:
            raise NotFound(f"invalid input {found.place} for {found.shown}")
        return Base(self._inputs[found.place](), self._asked.input_configs.get(found.place, {}))

    def _local(self, found: NamedContext, _platform: str) -> Base:
        self._policy.plain(f"local://{found.place}")
        session = self._asked.sessions.get(found.place, self._session.id)
        ignored = Ignore(self._files.ignored(found.place, f"[context {found.shown}] load .dockerignore"))
        wanted = filesync.Wanted(found.place, (), ignored.patterns)
        return _base(LocalSource(session, wanted, f"context:{found.shown}"), found, "load from client")

    def _git(self, found: NamedContext, _platform: str) -> Base:
        address = urls.repository(found.place)
        if address is None:
            raise Invalid(f"invalid git context {found.place}")
        self._policy.unchanged(found.place)
        return _base(GitSource(address), found, f"load git source {address.shown}")

    def _web(self, found: NamedContext, _platform: str) -> Base:
        self._policy.unchanged(found.place)
        return _base(WebSource(found.place, filename=_FILE), found, found.place)

    def _layout(self, found: NamedContext, platform: str) -> Base:
        self._policy.plain(f"oci-layout://{found.place}")
        name, digest = layoutsource.name_of(found.place)
        store = ClientStore(self._session, name, self._check)
        wanted = platforms.wanted(platform)
        source = replace(layoutsource.read(store, digest, wanted), name=found.place)
        return Base(_base(source, found, source.title).tree, source.config)


def _base(operation: GitSource | LayoutSource | LocalSource | WebSource, found: NamedContext, what: str) -> Base:
    return Base(Node(operation, name=f"[context {found.shown}] {what}").output(), {})


_KINDS: Mapping[str, Callable[[ContextFinding, NamedContext, str], Base]] = {
    namedcontexts.IMAGE: ContextFinding._named_image,
    namedcontexts.INPUT: ContextFinding._input,
    namedcontexts.LOCAL: ContextFinding._local,
    namedcontexts.GIT: ContextFinding._git,
    namedcontexts.WEB: ContextFinding._web,
    namedcontexts.LAYOUT: ContextFinding._layout,
}

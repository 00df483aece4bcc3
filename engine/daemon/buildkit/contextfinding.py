"""Finds what the names of a Dockerfile stand for that are no stages: named contexts of the client first, then images.

Belongs to the build's thread. Each is judged by the policies on sources first, which may put another source in its
place. What a context consists of becomes a node of the graph, which is solved only where a step needs it. A directory
of the client is left without what its own .dockerignore says.
"""

from collections.abc import Callable, Mapping

from engine.daemon.builder import namedcontexts, sourcechecks, urls
from engine.daemon.builder.converting import Base
from engine.daemon.builder.git.gitsource import GitSource
from engine.daemon.builder.graph.node import Input, Node
from engine.daemon.builder.namedcontexts import NamedContext
from engine.daemon.builder.sourcechecks import FILENAME, IMAGE, LAYOUT, LOCAL, WEB, SourceChecks
from engine.daemon.builder.sourcepolicies import Source
from engine.daemon.buildkit import filesync, layoutsource, sessions
from engine.daemon.buildkit.clientfiles import ClientFiles
from engine.daemon.buildkit.clientstore import ClientStore
from engine.daemon.buildkit.layoutsource import LayoutSource
from engine.daemon.buildkit.llb import laidout
from engine.daemon.buildkit.llb.localsource import LocalSource
from engine.daemon.buildkit.llb.websource import WebSource
from engine.daemon.buildkit.sessions import Session
from engine.daemon.buildkit.wishes import Asked
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.images import platform as platforms
from engine.daemon.images.reference import Reference
from engine.dataclass import replace
from engine.errors import Forbidden, Invalid, NotFound

Inputs = Mapping[str, Callable[[], Input | None]]
"""What a frontend was given beside its options, by name: each returns a tree of the graph, None for an empty one."""

_SCRATCH = "scratch"
_FILE = "context"  # what the file of a URL is called
_SESSION, _PINNED = "local.session", "image.checksum"


class ContextFinding:
    """The named contexts of one build.

    find: returns the image of a name for a platform as written, or empty; session: the build's own
    check: raises once nobody waits any more; checks: of which sources may be used
    """

    def __init__(
        self,
        asked: Asked,
        files: ClientFiles,
        session: Session,
        check: Callable[[], None],
        inputs: Inputs,
        find: Callable[[str, str], Base],
        checks: SourceChecks,
    ) -> None:
        self._asked, self._files, self._session, self._check = asked, files, session, check
        self._inputs, self._find, self._checks = inputs, find, checks

    def stands_for(self, name: str, platform: str) -> NamedContext | None:
        """The named context that a name stands for. platform: as written, or empty. Raises Invalid."""
        wanted = platforms.wanted(platform)
        return namedcontexts.find(self._asked.contexts, name, str(wanted))

    def is_image(self, name: str, platform: str) -> bool:
        """Whether a name stands for the image of that name, which may be used. platform: as of `stands_for`"""
        if self.stands_for(name, platform) is not None:
            return False
        source = sourcechecks.of_image(name)
        try:
            return self._checks.judged(source, platform) == source
        except (Forbidden, Invalid):  # which whoever needs the image is told
            return False

    def find(self, name: str, platform: str) -> Base:
        """What a name means that is no stage. Raises EngineErrors."""
        found = self.stands_for(name, platform)
        return self._image(name, platform, name) if found is None else _KINDS[found.kind](self, found, platform)

    def _image(self, name: str, platform: str, shown: str) -> Base:
        source = sourcechecks.of_image(name)
        return self._taken(source, platform, shown, lambda: self._find(name, platform))

    def _named_image(self, found: NamedContext, platform: str) -> Base:
        return Base(None, {}) if found.place == _SCRATCH else self._image(found.place, platform, found.shown)

    def _input(self, found: NamedContext, _platform: str) -> Base:
        if found.place not in self._inputs:
            raise NotFound(f"invalid input {found.place} for {found.shown}")
        return Base(self._inputs[found.place](), self._asked.input_configs.get(found.place, {}))

    def _local(self, found: NamedContext, platform: str) -> Base:
        session = self._asked.sessions.get(found.place, self._session.id)
        source = Source(
            f"{LOCAL}://{found.place}", {_SESSION: session, "local.sharedkeyhint": f"context:{found.shown}"}
        )
        return self._taken(source, platform, found.shown, lambda: self._directory(session, found.place, found.shown))

    def _git(self, found: NamedContext, platform: str) -> Base:
        address = urls.repository(found.place)
        if address is None:
            raise Invalid(f"invalid git context {found.place}")
        what = f"load git source {address.shown}"
        source = sourcechecks.of_git(address)
        return self._taken(source, platform, found.shown, lambda: _base(GitSource(address), found.shown, what))

    def _web(self, found: NamedContext, platform: str) -> Base:
        source = Source(found.place, {FILENAME: _FILE})
        made = WebSource(found.place, filename=_FILE)
        return self._taken(source, platform, found.shown, lambda: _base(made, found.shown, found.place))

    def _layout(self, found: NamedContext, platform: str) -> Base:
        store, digest = layoutsource.name_of(found.place)
        try:
            name = Reference.parse(found.name).with_default_tag().canonical.rpartition(":")[0]
        except Invalid:  # which no image is called
            name = found.name
        attributes = {"oci.session": self._session.id, "oci.store": store.removeprefix("oci:")}
        source = Source(f"{LAYOUT}://{name}@{digest}", attributes)
        return self._taken(source, platform, found.shown, lambda: self._laid_out(source, platform, found.shown))

    def _taken(self, source: Source, platform: str, shown: str, same: Callable[[], Base]) -> Base:
        """What is to be used for a source. shown: its name; same: gives the source itself. Raises EngineErrors."""
        found = self._checks.judged(source, platform)
        if found == source:
            return same()
        more = set(found.attributes) - set(source.attributes)
        if found.kind == IMAGE:
            base = self._find(sourcechecks.image_name(replace(found, attributes=_only(found, _PINNED))), platform)
            return base if not more - {_PINNED} else Base(self._checks.tree(found, platform), base.document)
        if found.kind == LAYOUT:
            return self._laid_out(found, platform, shown)
        if found.kind == LOCAL and not more - {_SESSION}:
            session = self._asked.sessions.get(found.name, self._session.id)
            return self._directory(found.attributes.get(_SESSION, session), found.name, shown)
        if found.kind in WEB:
            found = replace(found, attributes={FILENAME: _FILE, **found.attributes})
        return Base(self._checks.tree(found, platform), {})

    def _directory(self, session: str, name: str, shown: str) -> Base:
        """A directory of the client's, without what its .dockerignore says."""
        ignored = Ignore(self._files.ignored(name, f"[context {shown}] load .dockerignore"))
        wanted = filesync.Wanted(name, (), ignored.patterns)
        return _base(LocalSource(session, wanted, f"context:{shown}"), shown, "load from client")

    def _laid_out(self, source: Source, platform: str, shown: str) -> Base:
        """An image in a content store of the client's."""
        wanted = platforms.wanted(platform)
        laid = laidout.read(source.identifier, source.attributes, self._session.id, wanted)
        session = self._session if laid.session == self._session.id else sessions.find(laid.session)
        found = layoutsource.read(ClientStore(session, laid.store, self._check), laid.image, wanted)
        tree = laid if laid.limit is not None else replace(found, name=source.name)
        return Base(_base(tree, shown, LayoutSource.title).tree, found.config)


def _only(source: Source, key: str) -> dict[str, str]:
    return {key: source.attributes[key]} if key in source.attributes else {}


def _base(
    operation: GitSource | LayoutSource | LocalSource | WebSource | laidout.LaidOut, shown: str, what: str
) -> Base:
    return Base(Node(operation, name=f"[context {shown}] {what}").output(), {})


_KINDS: Mapping[str, Callable[[ContextFinding, NamedContext, str], Base]] = {
    namedcontexts.IMAGE: ContextFinding._named_image,
    namedcontexts.INPUT: ContextFinding._input,
    namedcontexts.LOCAL: ContextFinding._local,
    namedcontexts.GIT: ContextFinding._git,
    namedcontexts.WEB: ContextFinding._web,
    namedcontexts.LAYOUT: ContextFinding._layout,
}

"""COPY and ADD: an operation that copies files of a directory, of another tree or of a server into a tree.

What decides its outcome are the files that it copies. So a change of any other file of its source keeps its result.
"""

import contextlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.daemon.builder import fileactions
from engine.daemon.builder.copying import fetching, packing, permissions
from engine.daemon.builder.copying.digests import Digester
from engine.daemon.builder.copying.prepare import Prepared
from engine.daemon.builder.copying.request import Base, Request
from engine.daemon.builder.copying.wildcards import is_pattern
from engine.daemon.builder.fileactions import Action, Named
from engine.daemon.builder.graph.node import digest
from engine.daemon.builder.graph.snapshot import Snapshot
from engine.daemon.builder.graph.work import HOST_NETWORK, Work
from engine.daemon.builder.localtree import Local
from engine.daemon.builder.merging import Merging
from engine.daemon.builder.sourcechecks import Instead
from engine.daemon.builder.treecopy import Copied
from engine.daemon.images.layers import merged
from engine.daemon.tar.chunkstream import Stream
from engine.daemon.tar.trees import remove_tree
from engine.dataclass import replace
from engine.errors import Invalid
from engine.literals import natural

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_MODE = 0o7777


class Packing:
    """The operation as the classic builder has it: the sources are digested already, and packed as a layer.

    local: the directory that is copied from, None for the second input
    """

    kind = "regular"

    def __init__(self, request: Request, title: str, local: Local | None, prepared: Prepared) -> None:
        self.title = title
        self.prepared = prepared
        self._request, self._local = request, local

    def key(self) -> str:
        """The request, and the directory."""
        return digest("copy", self._local.id if self._local else "", self._request.decides())

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The tree that is copied into, and the files that are copied."""
        return digest("copy", inputs[0].chain, self.prepared.digest)

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree with the files. Raises EngineErrors in docker's words."""
        base = Base(inputs[0].layers, work.engine.images.layer_root, work.scratch)
        with _source(self._local, work, inputs) as root:
            chunks = packing.chunks(root, self._request.checked(work.check), base)
            return (inputs[0].above(work.keeper.packed(Stream(chunks), inputs[0])),)


@contextlib.contextmanager
def _source(local: Local | None, work: Work, inputs: Sequence[Snapshot]) -> Iterator[int]:
    if local is not None:
        yield local.root
        return
    layers = inputs[1].layers if len(inputs) > 1 else ()
    with merged.held(work.engine.images.layer_root, layers) as root:
        yield root


class Copying:
    """The operation as BuildKit has it: each source is copied by an action on what those before it have made.

    local: the directory that is copied from, None for the second input; urls: those sources that are to be fetched
    checksum: that the one URL's contents must have, or empty; instead: URL → what is downloaded for it, under its name
    Source: buildkit, frontend/dockerfile/dockerfile2llb/convert_copy.go
    """

    kind = "regular"

    def __init__(
        self,
        request: Request,
        title: str,
        local: Local | None = None,
        urls: Sequence[str] = (),
        checksum: str = "",
        instead: Mapping[str, Instead] | None = None,
    ) -> None:
        """Raises Invalid for what cannot be whatever the tree is."""
        self.title = title
        self.request, self.local = request, local
        self.urls, self.checksum = tuple(urls), checksum
        self.instead = instead or {}
        self._fetched: dict[str, fetching.Fetched] | None = None  # of the one build that the operation belongs to
        if request.chmod:
            permissions.parse(request.chmod)
        if request.link and any(isinstance(each, Named) for each in fileactions.owners(request.chown)):
            fault = "user and group names can't be resolved when used with --link, use numeric uid[:gid] instead"
            raise Invalid(f"--chown={request.chown}: {fault}")

    def key(self) -> str:
        """The request, and the directory."""
        source = self.local.id if self.local else ""
        instead = [(url, each.url, each.checksum) for url, each in sorted(self.instead.items())]
        return digest("copied", source, self.request.decides(), list(self.urls), self.checksum, instead)

    def identity(self, work: Work, inputs: Sequence[Snapshot]) -> str:
        """The tree that is copied into, and the files that are copied."""
        request = self._asked(work)
        asked = digest("copied", request.decides())
        remembered = None if self.urls or request.inline else request.remembered
        seen = remembered.tree(asked) if remembered is not None else None
        if seen is None:
            digester = Digester(replace(request, keep_owners=True))
            with self._actions(work, inputs) as (actions, root_of):
                copies = [(root_of(each.source), each.does) for each in actions if isinstance(each.does, Copied)]
                found = [fileactions.contents(root, does, digester) for root, does in copies]
            seen = f"multi:{digest(found)}"
            if remembered is not None:
                remembered.learn_tree(asked, seen)
        return digest("copied", inputs[0].chain, self.request.decides(), seen)

    def make(self, work: Work, inputs: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
        """The tree with the files; those of --link are a layer that knows nothing of it. Raises EngineErrors."""
        with self._actions(work, inputs) as (actions, root_of):
            if not self.request.link or self.request.chmod:
                return (fileactions.done(work, inputs[0], actions, root_of),)
            made = fileactions.done(work, Snapshot(), actions, root_of)
        return Merging(self.title).make(work, (inputs[0], made))

    def wanted(self, url: str) -> Instead:
        """What is downloaded for a URL."""
        return self.instead.get(url, Instead(url, self.checksum))

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
            keep, wanted = self.request.keep_git_dir, self.wanted(url)
            found = fetching.fetch(
                wanted.url,
                wanted.checksum,
                work.scratch,
                told,
                giver=work.giver,
                check=work.check,
                keep_git_dir=keep,
                loopback=work.may(HOST_NETWORK),
            )
        work.told.downloaded()
        return replace(found, url=url)

    @contextlib.contextmanager
    def _actions(self, work: Work, inputs: Sequence[Snapshot]) -> Iterator[tuple[list[Action], Callable[[int], int]]]:
        """The copies, and what gives the root of a tree by its number: the one below is 0, then each copy's own."""
        request, roots = self._asked(work), dict[int, int]()
        user, group = fileactions.owners(request.chown, 0 if inputs[0].parts else fileactions.NOTHING)
        with contextlib.ExitStack() as stack:

            def root_of(number: int) -> int:
                if number not in roots:
                    layers = inputs[0].layers
                    roots[number] = stack.enter_context(merged.held(work.engine.images.layer_root, layers))
                return roots[number]

            found: list[tuple[int, Copied]] = []
            any_plain = any(isinstance(each, str) for each in request.sources)
            source = stack.enter_context(_source(self.local, work, inputs)) if any_plain else -1
            for each in request.sources:
                found.append(
                    (source, plain(request, each)) if isinstance(each, str) else _fetched(request, each, stack)
                )
            for name, data in request.inline:
                root = _staged(work.scratch, stack)
                with open(os.open(name, _CREATE, 0o644, dir_fd=root), "wb") as file:
                    file.write(data)
                found.append((root, copied(request, name)))
            roots.update(enumerate((root for root, _ in found), 1))
            yield [Action(does, 0, at, user=user, group=group) for at, (_, does) in enumerate(found, 1)], root_of


def plain(request: Request, source: str) -> Copied:
    """The copy of a path or a pattern of the source's tree."""
    include, required = "", ""
    if request.parents:
        before, pivot, after = source.partition("/./")
        source, include = (before, _clean(after)) if pivot else ("/", _clean(source))
        required = "" if is_pattern(source) or is_pattern(include) else posixpath.join(_clean(source), include[1:])
    return replace(
        copied(request, _clean(source), request.unpack),
        follow=True,
        contents=True,
        wildcard=True,
        empty_wildcard=True,
        include=(include[1:],) if include else (),
        required=(required,) if required else (),
    )


def _fetched(request: Request, source: fetching.Fetched, stack: contextlib.ExitStack) -> tuple[int, Copied]:
    """The copy of what was fetched, and its root: a repository as a whole, or else one file."""
    if stat.S_ISDIR(os.stat(source.stored, dir_fd=source.directory).st_mode):
        root = os.open(source.stored, _DIRECTORY, dir_fd=source.directory)
        stack.callback(os.close, root)
        return root, copied(request, "/")
    root, name = _staged(source.directory, stack), fetching.plain_name(source.url)
    os.link(source.stored, name, src_dir_fd=source.directory, dst_dir_fd=root)
    return root, copied(request, name, request.unpack_fetched)


def _staged(above: int, stack: contextlib.ExitStack) -> int:
    """The descriptor of an empty directory in the build's scratch directory."""
    name = f"staged-{os.urandom(8).hex()}"
    os.mkdir(name, 0o755, dir_fd=above)
    stack.callback(remove_tree, above, name)
    root = os.open(name, _DIRECTORY, dir_fd=above)
    stack.callback(os.close, root)
    return root


def copied(request: Request, source: str, unpack: bool = False) -> Copied:
    """The copy of one whole file or directory."""
    mode = natural(request.chmod, _MOST_MODE, octal=True) if request.chmod else None
    words = request.chmod if mode is None else ""
    return Copied(source, request.place, mode, words, unpack=unpack, parents=True, exclude=request.exclude)


def _clean(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")

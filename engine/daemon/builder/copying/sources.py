"""Finds the files and directories that the sources of a COPY or an ADD name, in the context or in another image.

Runs in the build's thread. Symbolic links in the root are followed inside it, never out. The sources are yielded one by
one, and found again for a second pass: a pattern can match more names than the memory should hold.
"""

import errno
import os
import posixpath
import stat
from collections.abc import Iterator

from engine.daemon.builder.copying import places, walking
from engine.daemon.builder.copying.fetching import UNNAMED, Fetched
from engine.daemon.builder.copying.request import Request
from engine.daemon.builder.copying.wildcards import Pattern, is_pattern
from engine.daemon.dockerfile.ignore import Ignore
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_PIVOT = "/./"


@dataclass(frozen=True, slots=True)
class Source:
    """One file or directory to be copied.

    root, path: where it is; no part of the path is a symbolic link (except perhaps the last one, with --parents)
    name: its name at the destination. Of a directory only the contents are copied, so it has a name only with
    --parents.
    above: with --parents, the directories that are copied with it: (name at the destination, path beneath the root)
    """

    root: int
    path: str
    name: str
    found: os.stat_result
    fetched: bool = False
    above: tuple[tuple[str, str], ...] = ()

    @property
    def is_directory(self) -> bool:
        """Whether the source is a directory."""
        return stat.S_ISDIR(self.found.st_mode)


class AbsentSource(NotFound):
    """A source that is not there. path: its path below the root, as the instruction has it"""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path


def find(root: int, request: Request) -> Iterator[Source]:
    """Everything that the request's sources name, in their order. Raises NotFound, Invalid in docker's words."""
    failed = f"{request.shown} failed: "
    excluded = Ignore("\n".join(request.exclude)) if request.exclude else None
    for text in request.sources:
        if isinstance(text, Fetched):
            yield _fetched(text, request, failed)
            continue
        try:
            found = _with_parents(root, text) if request.parents else _plain(root, text)
            for source in found:
                request.check()
                # A directory's own name is not tested: its contents are, one by one.
                if excluded is None or source.is_directory or not excluded.matches(source.name):
                    yield source
        except FileNotFoundError as error:
            missing = "" if request.keep_owners else "file not found in build context or excluded by .dockerignore: "
            text = f"{failed}{missing}stat {error.filename}: file does not exist"
            raise AbsentSource(text, str(error.filename)) from error
        except OSError as error:
            # An ordinary path causes these by a file in its middle, by symbolic links in a circle, or by its length.
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.ENAMETOOLONG):
                raise SystemFailure(f"{failed}{reasons.of(error.errno or errno.EIO)}") from error
            raise Invalid(f"{failed}forbidden path outside the build context: {error.filename} ()") from error


def contents(source: Source, request: Request) -> Iterator[walking.Member]:
    """The members of a source that is a directory, without those that `exclude` names. Raises OSError."""
    top = open_beneath(source.root, source.path, os.O_RDONLY | os.O_DIRECTORY, no_symlinks=True)
    try:
        if not request.exclude:
            yield from walking.members(top)
            return
        excluded = Ignore("\n".join(request.exclude))
        before = f"{source.name}/" if request.parents and source.name != "." else ""

        def choose(path: str, is_directory: bool) -> tuple[bool, bool]:
            out = excluded.matches(before + path, is_directory)
            return not out, not out or excluded.takes_back

        yield from walking.members(top, choose)
    finally:
        os.close(top)


def _fetched(text: Fetched, request: Request, failed: str) -> Source:
    found = os.stat(text.stored, dir_fd=text.directory)
    if stat.S_ISDIR(found.st_mode):
        return Source(text.directory, text.stored, ".", found, fetched=True)
    name = text.name
    if not name:
        if request.destination.endswith("/"):
            raise Invalid(f"{failed}cannot determine filename for source {text.url}")
        name = UNNAMED
    return Source(text.directory, text.stored, name, found, fetched=True)


def _shown(text: str) -> str:
    """The path in the form of docker's error texts."""
    return text.removeprefix("/").removeprefix("./")


def _cleaned(text: str) -> str:
    """The path without redundant parts; `.` for the root.

    Raises OSError (EXDEV) for a path that leads out of the root.
    """
    shown = _shown(text)
    if "\0" in shown:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), shown)
    clean = posixpath.normpath(shown.lstrip("/") or ".") if not shown.startswith("..") else shown
    if clean == ".." or clean.startswith("../"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), shown)
    return clean


def _plain(root: int, text: str) -> Iterator[Source]:
    if not is_pattern(text):
        yield _one(root, _cleaned(text), _shown(text))
        return
    # The pattern is not cleaned: docker compares it as it stands, except for what `_shown` takes from its beginning.
    for path in _matched(root, Pattern(_shown(text))):
        yield _one(root, path, path)


def _one(root: int, path: str, shown: str) -> Source:
    """The source that the path leads to. Raises OSError with `shown` as its file name."""
    try:
        real = places.within(root, path, whole=True)
    except OSError as error:
        error.filename = shown
        raise
    if not real:
        return Source(root, ".", ".", os.fstat(root))
    place, found = real[-1]
    assert found is not None  # `within` raises where a part is missing, as whole=True
    return Source(root, place, posixpath.basename(path), found)


def _matched(top: int, pattern: Pattern) -> Iterator[str]:
    """The paths beneath `top` that match. The contents of a directory that matches belong to it and are not listed."""

    def state_of(path: str) -> frozenset[int]:
        state = pattern.start
        for name in path.split("/"):
            state = pattern.step(state, name)
        return state

    def choose(path: str, _is_directory: bool) -> tuple[bool, bool]:
        state = state_of(path)
        found = pattern.accepts(state)
        return found, not found and bool(state)

    for member in walking.members(top, choose):
        yield member.path


def _with_parents(root: int, text: str) -> Iterator[Source]:
    """The sources that the text names, each with the directories between the pivot and it.

    The pivot is the part `/./` of the text; without one it is the root.
    """
    before, pivot, after = text.partition(_PIVOT)
    start, rest = (_cleaned(before), _cleaned(after)) if pivot else (".", _cleaned(text))
    if not is_pattern(rest):
        yield _kept(root, start, rest)
        return
    try:
        top = open_beneath(root, start, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        error.filename = start
        raise
    try:
        for path in _matched(top, Pattern(rest, deep=True)):
            yield _kept(root, start, path)
    finally:
        os.close(top)


def _kept(root: int, start: str, rest: str) -> Source:
    whole = posixpath.normpath(posixpath.join(start, rest))
    try:
        begin = places.within(root, start, whole=True)
        prefix = f"{begin[-1][0]}/" if begin else ""
        fd = open_beneath(root, f"{prefix}{rest}", _PLACE)
        try:
            found = os.fstat(fd)
        finally:
            os.close(fd)
        names = rest.split("/")
        above = tuple(
            ("/".join(names[:count]), prefix + "/".join(names[:count])) for count in range(1, len(names)) if rest != "."
        )
        # Each of these directories must be a real one; through a symbolic link the copy would have a wrong path.
        if above:
            os.close(open_beneath(root, above[-1][1], _PLACE, no_symlinks=True))
    except OSError as error:
        error.filename = whole
        raise
    return Source(root, f"{prefix}{rest}" if rest != "." else prefix.rstrip("/") or ".", rest, found, above=above)

"""Copies files of one tree into a root that nobody else changes, by the rules of BuildKit's copy (fsutil/copy).

Runs on the thread that has the root. Neither tree is trusted: links are followed inside their own tree alone, nothing
but regular files is opened, and a source of any depth takes a bounded number of descriptors.
"""

import errno
import io
import itertools
import os
import posixpath
import stat
from collections.abc import Callable, Iterator

from engine.daemon.builder import fileedits
from engine.daemon.builder.copying import archives, permissions, walking
from engine.daemon.builder.copying.digests import Digester
from engine.daemon.builder.copying.sources import AbsentSource
from engine.daemon.builder.fileedits import Attributes
from engine.daemon.dockerfile.ignore import Ignore
from engine.daemon.images.layers import storage
from engine.daemon.tar import extract
from engine.daemon.tar import reader as tar
from engine.daemon.tar.compression import Unpacked
from engine.daemon.tar.space import check_space
from engine.daemon.tar.writer import open_file
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound
from engine.kernel.beneath import open_beneath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEFAULT_MODE = 0o755
_BUFFER = 256 * 1024
_LOOK_EACH = 100  # files between two looks at the room on the disk


@dataclass(frozen=True, slots=True)
class Copied:
    """What is copied, and how: the fields of LLB's FileActionCopy, by their own names.

    required: paths that must be there, whatever the patterns take
    mode: of all that is copied, None: as it was; mode_text: the same in words, as of chmod(1), empty for none
    """

    source: str
    destination: str
    mode: int | None = None
    mode_text: str = ""
    follow: bool = False
    contents: bool = False
    unpack: bool = False
    parents: bool = False
    wildcard: bool = False
    empty_wildcard: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    replace: bool = False


def copy(source: int, root: int, asked: Copied, given: Attributes, check: Callable[[], None]) -> None:
    """Copy. source: descriptor of the root of the tree that is copied from; check: raises to end it

    Raises NotFound, Invalid, OSError.
    """
    _Copying(source, root, asked, given, check).run()


def selected(source: int, asked: Copied) -> Iterator[tuple[str, str]]:
    """Each path without links at which the copy begins, and what it is called in a directory.

    The name is empty for what goes into that directory itself. Raises NotFound, OSError.
    """
    for path in asked.required:
        place_of = fileedits.real_place(source, path)
        if not place_of or fileedits.look(source, place_of) is None:  # BuildKit does not find the root itself
            raise _absent(path, AbsentSource)
    text = _cleaned(asked.source)
    place = fileedits.real if asked.follow else fileedits.real_place
    if not (asked.wildcard and fileedits.is_pattern(text)):
        whole = place(source, text)
        if fileedits.look(source, whole) is None:
            raise _absent(text, NotFound if asked.include or asked.exclude else AbsentSource)
        yield whole, "" if text.endswith("/.") else posixpath.basename(text.rstrip("/"))
        return
    found = False
    for path in fileedits.matches(source, text, asked.follow):
        found, whole = True, place(source, path)
        if fileedits.look(source, whole) is None:
            raise _absent(path, AbsentSource)
        yield whole, posixpath.basename(path)
    if not found and not asked.empty_wildcard:
        raise NotFound(f"{text} not found")


def digested(source: int, asked: Copied, digester: Digester) -> Iterator[str]:
    """Digests of what is copied: of each path at which the copy begins one. Raises NotFound, OSError."""
    for path, name in selected(source, asked):
        found = fileedits.look(source, path)
        directory = found is not None and stat.S_ISDIR(found.st_mode)
        first = [] if directory and asked.contents else [(*fileedits.parent(source, path), name)] if path else []
        top = open_beneath(source, path, _DIRECTORY, no_symlinks=True) if directory and path else source
        try:
            below = (
                ((above, last, f"{name}/{path}") for above, last, path, *_ in _taken(top, asked)) if directory else ()
            )
            yield digester.members(name, itertools.chain(first, below))
        finally:
            for above in {top, *(each[0] for each in first)} - {source}:
                os.close(above)


def _absent(path: str, kind: type[NotFound]) -> NotFound:
    """The failure for a path that is not there: of a key, or where patterns let a key be without it, of the copy."""
    clean = posixpath.normpath(f"/{path.lstrip('/')}")
    words = f"lstat {clean}: no such file or directory"
    return AbsentSource(words, clean[1:]) if kind is AbsentSource else NotFound(words)


def _taken(top: int, asked: Copied) -> Iterator[tuple[int, str, str, os.stat_result, bool]]:
    """What the patterns take of a directory's members: its open directory, its name there, its path, and its status.

    A directory that they do not take comes once something below it is taken; the last value is false for such a one.
    """
    include = Ignore("\n".join(asked.include)) if asked.include else None
    exclude = Ignore("\n".join(asked.exclude)) if asked.exclude else None
    waiting: dict[str, os.stat_result] = {}

    def is_taken(path: str, is_directory: bool) -> bool:
        left_out = exclude is not None and exclude.matches(path, is_directory)
        return not left_out and (include is None or include.matches(path, is_directory))

    def choose(path: str, is_directory: bool) -> tuple[bool, bool]:
        enters = exclude is None or exclude.takes_back or not exclude.matches(path, is_directory)
        return is_directory or is_taken(path, False), enters

    for member in walking.members(top, choose):
        found = os.stat(member.name, dir_fd=member.parent, follow_symlinks=False)
        if member.is_directory and not is_taken(member.path, True):
            waiting[member.path] = found
            continue
        parts = member.path.split("/")
        for above in ("/".join(parts[:count]) for count in range(1, len(parts))):
            if above in waiting:
                parent, name = fileedits.parent(top, above)
                try:
                    yield parent, name, above, waiting.pop(above), False
                finally:
                    os.close(parent)
        yield member.parent, member.name, member.path, found, True


def _cleaned(path: str) -> str:
    """The path from the root; a slash or `/.` at its end stays."""
    clean = posixpath.normpath(f"/{path.lstrip('/')}")
    if path.endswith("/.") and clean != "/":
        return f"{clean}/."
    return f"{clean}/" if path.endswith("/") and clean != "/" else clean


class _Copying:
    """One copy action."""

    def __init__(self, source: int, root: int, asked: Copied, given: Attributes, check: Callable[[], None]) -> None:
        self._source, self._root = source, root
        self._asked, self._given, self._check = asked, given, check
        self._mode = permissions.parse(asked.mode_text) if asked.mode_text else None
        self._links: dict[tuple[int, int], str] = {}
        self._times: list[tuple[str, int]] = []  # of directories, set when nothing more is put into them
        self._count = 0

    def run(self) -> None:
        """Copy all that is selected."""
        destination = _cleaned(self._asked.destination)
        if not self._asked.parents:
            above = posixpath.dirname(fileedits.real(self._root, destination))
            if fileedits.look(self._root, above) is None:
                raise NotFound(f"failed to stat {self._asked.destination}: no such file or directory")
        for path, name in selected(self._source, self._asked):
            self._links.clear()
            if self._asked.unpack and self._unpacked(path, destination):
                continue
            self._begin(path, name, destination)
        for path, time_ns in reversed(self._times):
            self._set_time(path, time_ns)

    def _begin(self, path: str, name: str, destination: str) -> None:
        """Copy one path of the source, and all that is below it. name: what it is called in a directory"""
        found = fileedits.look(self._source, path)
        assert found is not None  # as `selected` has seen
        ensured = destination if destination.endswith(("/", "/.")) else posixpath.dirname(destination)
        self._lead(fileedits.real(self._root, ensured), self._asked.mode)
        target = fileedits.real(self._root, posixpath.normpath(destination))
        there = fileedits.look(self._root, target)
        directory = stat.S_ISDIR(found.st_mode)
        within = there is not None and (
            (directory and not self._asked.contents) or (not directory and stat.S_ISDIR(there.st_mode))
        )
        if within:
            target = f"{target}/{name}".strip("/")
        above = target if self._asked.contents and directory and there is None else posixpath.dirname(target)
        self._lead(above, self._asked.mode)
        if not directory:
            parent, name = fileedits.parent(self._source, path)
            try:
                self._one(parent, name, found, target)
            finally:
                os.close(parent)
            return
        top = open_beneath(self._source, path or ".", _DIRECTORY, no_symlinks=True)
        try:
            self._directory(top, found, target, over=False)
            self._members(top, target)
        finally:
            os.close(top)

    def _lead(self, path: str, mode: int | None) -> None:
        mode = _DEFAULT_MODE if mode is None else mode & 0o777
        fileedits.make_directories(self._root, path, mode, self._given)

    def _members(self, top: int, target: str) -> None:
        """Copy what is in a directory."""
        for parent, name, path, found, taken in _taken(top, self._asked):
            self._check()
            self._look_at_room()
            here = f"{target}/{path}".strip("/")
            if stat.S_ISDIR(found.st_mode):
                inner = os.open(name, _DIRECTORY, dir_fd=parent)
                try:
                    self._directory(inner, found, here, over=True, dated=taken)
                finally:
                    os.close(inner)
            else:
                self._one(parent, name, found, here)

    def _directory(self, source: int, found: os.stat_result, target: str, over: bool, dated: bool = True) -> None:
        """Make a directory like the source; one that is there keeps all but its time, unless `over`. dated: with it"""
        there = fileedits.look(self._root, target)
        if there is not None and not stat.S_ISDIR(there.st_mode):
            if not self._asked.replace:
                raise Invalid(f"cannot copy to non-directory: /{target}")
            self._drop(target)
            there = None
        if there is None:
            above, name = fileedits.parent(self._root, target)
            try:
                os.mkdir(name, 0o700, dir_fd=above)
            finally:
                os.close(above)
        if there is None or over:
            made = open_beneath(self._root, target or ".", _DIRECTORY, no_symlinks=True)
            try:
                if there is None or dated:
                    storage.copy_attributes(source, made)
                    self._attend(made, found)
                else:
                    os.fchmod(made, stat.S_IMODE(found.st_mode))
            finally:
                os.close(made)
        time_ns = found.st_mtime_ns if self._given.time_ns is None else self._given.time_ns
        if dated or self._given.time_ns is not None:
            self._times.append((target, time_ns))

    def _one(self, parent: int, name: str, found: os.stat_result, target: str) -> None:
        """Copy a file of any kind but a directory."""
        there = fileedits.look(self._root, target)
        if there is not None:
            if stat.S_ISDIR(there.st_mode) and not self._asked.replace:
                raise Invalid(f"cannot replace to directory /{target} with file")
            self._drop(target)
        above, last = fileedits.parent(self._root, target)
        try:
            if stat.S_ISREG(found.st_mode):
                self._file(parent, name, found, above, last, target)
                return
            if stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(name, dir_fd=parent), last, dir_fd=above)
            else:
                os.mknod(last, stat.S_IFMT(found.st_mode) | 0o600, found.st_rdev, dir_fd=above)
            owner = self._given.owner or (found.st_uid, found.st_gid)
            os.chown(last, *owner, dir_fd=above, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                os.chmod(last, self._new_mode(found.st_mode), dir_fd=above)  # of what was made here: it is no link
            time_ns = found.st_mtime_ns if self._given.time_ns is None else self._given.time_ns
            os.utime(last, ns=(time_ns, time_ns), dir_fd=above, follow_symlinks=False)
        finally:
            os.close(above)

    def _file(self, parent: int, name: str, found: os.stat_result, above: int, last: str, target: str) -> None:
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._links:
            first, own = fileedits.parent(self._root, self._links[key])
            try:
                os.link(own, last, src_dir_fd=first, dst_dir_fd=above, follow_symlinks=False)
            finally:
                os.close(first)
            return
        if found.st_nlink > 1:
            self._links[key] = target
        old, _ = open_file(parent, name)
        try:
            new = os.open(
                last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=above
            )
            try:
                storage.copy_bytes(old, new, self._check)
                storage.copy_attributes(old, new)
                self._attend(new, found)
                time_ns = found.st_mtime_ns if self._given.time_ns is None else self._given.time_ns
                os.utime(new, ns=(time_ns, time_ns))
            finally:
                os.close(new)
        finally:
            os.close(old)

    def _attend(self, made: int, found: os.stat_result) -> None:
        """Owner and mode of an open file or directory; the owner first, as it takes bits of the mode away."""
        os.fchown(made, *(self._given.owner or (found.st_uid, found.st_gid)))
        os.fchmod(made, self._new_mode(found.st_mode))

    def _new_mode(self, mode: int) -> int:
        if self._mode is not None:
            return stat.S_IMODE(self._mode(mode))
        return stat.S_IMODE(mode) if self._asked.mode is None else self._asked.mode & 0o7777

    def _drop(self, target: str) -> None:
        above, name = fileedits.parent(self._root, target)
        try:
            fileedits.drop(above, name)
        finally:
            os.close(above)

    def _set_time(self, path: str, time_ns: int) -> None:
        try:
            made = open_beneath(self._root, path or ".", _DIRECTORY, no_symlinks=True)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):  # a later source has replaced it
                raise
            return
        try:
            os.utime(made, ns=(time_ns, time_ns))
        finally:
            os.close(made)

    def _look_at_room(self) -> None:
        self._count += 1
        if self._count % _LOOK_EACH == 0:
            check_space(self._root)

    # Archives

    def _unpacked(self, path: str, destination: str) -> bool:
        """Unpack the source into the destination if it is an archive; whether it is one."""
        found = fileedits.look(self._source, path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return False
        above, name = fileedits.parent(self._source, path)
        try:
            if not archives.is_archive(above, name):
                return False
            target = fileedits.real(self._root, destination)
            self._lead(target, None)
            top = open_beneath(self._root, target or ".", _DIRECTORY, no_symlinks=True)
            try:
                descriptor, _ = open_file(above, name)
                with os.fdopen(descriptor, "rb") as file:
                    _extracted(top, file, self._given.owner, self._check)
            finally:
                os.close(top)
        finally:
            os.close(above)
        return True


def _extracted(top: int, file: io.BufferedReader, owner: tuple[int, int] | None, check: Callable[[], None]) -> None:
    into = _Into(top)
    try:
        reader = tar.TarReader(io.BufferedReader(Unpacked(file), _BUFFER))
        for entry in reader:
            check()
            if owner is not None:
                entry.uid, entry.gid = owner
            into.check(entry)
            parts = extract.components(entry.name)
            if parts:
                try:
                    into.make(entry, parts, reader)
                except OSError as error:
                    raise extract.failure(entry.name, error) from error
        into.settle_directories()
    finally:
        into.close()


class _Into(extract.Extraction):
    """Unpacks an archive into a directory; links in it lead nowhere else."""

    what = "archive"

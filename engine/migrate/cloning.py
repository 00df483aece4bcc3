"""Makes a second tree of a tree of files, with as few bytes of its own as the file systems allow.

A tree that nobody changes any more (a layer) shares its files with the first by hard links. A tree that is written to
(a volume, a container's own files) shares their blocks, where the file system has reflinks (FICLONE); else its bytes
are copied. Owners, modes, times, extended attributes, devices and hard links within the tree stay as they are. Both
trees are walked by descriptors, and no symbolic link is followed.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable

from engine.daemon.images.layers.storage import copy_attributes, copy_bytes
from engine.dataclass import dataclass
from engine.errors import Invalid

_FICLONE = 0x40049409  # ioctl_ficlone(2)
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST = 200
# What a file system says that cannot link or clone from another one, or at all.
_CANNOT = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.ETXTBSY}
)
# An overlay obeys these attributes. Of them only the mark of an opaque directory is one that a layer has.
_OVERLAYS_OWN = ("trusted.overlay.", "user.overlay.")
_OPAQUE = "trusted.overlay.opaque"
# What overlayfs leaves in what a container has written to; it means nothing in another place.
_MEANINGLESS = (".origin", ".impure", ".nlink", ".uuid", ".upper")


@dataclass(slots=True)
class Shared:
    """What came of it. size: bytes of all files; shared: those that take no room of their own; copied: those that do"""

    size: int = 0
    shared: int = 0
    copied: int = 0


def clone(source: int, sink: int, *, linked: bool, tell: Callable[[Shared], None] = lambda _: None) -> Shared:
    """Fill the empty directory `sink` as `source` is. Raises Invalid for a tree that no engine makes, OSError.

    source, sink: descriptors of the two directories; linked: files that are not written to, so hard links will do
    tell: called after each file
    """
    work = _Clone(linked, tell)
    work.directory(source, sink, 0)
    return work.done


class _Clone:
    def __init__(self, linked: bool, tell: Callable[[Shared], None]) -> None:
        self._linked = linked
        self._clones = True
        self._tell = tell
        self._links: dict[tuple[int, int], str] = {}
        self.done = Shared()

    def directory(self, source: int, sink: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise Invalid("directories are nested too deeply")
        for name in os.listdir(source):
            found = os.stat(name, dir_fd=source, follow_symlinks=False)
            _check_attributes(source, name)
            if stat.S_ISDIR(found.st_mode):
                self._subdirectory(source, sink, name, depth)
            elif not self._link_within(found, sink, name):
                self._one(found, source, sink, name)
            self._tell(self.done)
        found = os.fstat(source)
        os.fchown(sink, found.st_uid, found.st_gid)
        _copy_attributes(source, sink)
        os.fchmod(sink, stat.S_IMODE(found.st_mode))
        os.utime(sink, ns=(found.st_atime_ns, found.st_mtime_ns))

    def _subdirectory(self, source: int, sink: int, name: str, depth: int) -> None:
        os.mkdir(name, 0o700, dir_fd=sink)
        inner_source = os.open(name, _READABLE, dir_fd=source)
        try:
            inner_sink = os.open(name, _READABLE, dir_fd=sink)
            try:
                self.directory(inner_source, inner_sink, depth + 1)
            finally:
                os.close(inner_sink)
        finally:
            os.close(inner_source)

    def _link_within(self, found: os.stat_result, sink: int, name: str) -> bool:
        """Make another name of a file that was made already; True if it was."""
        if found.st_nlink < 2:
            return False
        key = (found.st_dev, found.st_ino)
        known = self._links.get(key)
        if known is None:
            self._links[key] = os.path.join(os.readlink(f"/proc/self/fd/{sink}"), name)
            return False
        os.link(known, name, dst_dir_fd=sink, follow_symlinks=False)
        return True

    def _one(self, found: os.stat_result, source: int, sink: int, name: str) -> None:
        if stat.S_ISREG(found.st_mode):
            self._file(found, source, sink, name)
            return
        if stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=sink)
        else:
            os.mknod(name, found.st_mode, found.st_rdev, dir_fd=sink)
            os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=sink)
        os.chown(name, found.st_uid, found.st_gid, dir_fd=sink, follow_symlinks=False)
        _copy_attributes(f"/proc/self/fd/{source}/{name}", f"/proc/self/fd/{sink}/{name}")
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=sink, follow_symlinks=False)

    def _file(self, found: os.stat_result, source: int, sink: int, name: str) -> None:
        self.done.size += found.st_size
        if self._linked:
            try:
                os.link(name, name, src_dir_fd=source, dst_dir_fd=sink, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._linked = error.errno == errno.EMLINK  # of this one file alone
            else:
                self.done.shared += found.st_size
                return
        old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
        try:
            new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=sink)
            try:
                self._fill(old, new, found.st_size)
                os.fchown(new, found.st_uid, found.st_gid)
                _copy_attributes(old, new)
                os.fchmod(new, stat.S_IMODE(found.st_mode))
                os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
            finally:
                os.close(new)
        finally:
            os.close(old)

    def _fill(self, old: int, new: int, size: int) -> None:
        if self._clones and size:
            try:
                fcntl.ioctl(new, _FICLONE, old)
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._clones = False
            else:
                self.done.shared += size
                return
        copy_bytes(old, new, lambda: None)
        self.done.copied += size


def _own_marks(name: str) -> bool:
    return name.startswith(_OVERLAYS_OWN) and name != _OPAQUE


def _check_attributes(directory: int, name: str) -> None:
    """Raise Invalid for a file whose attributes would lead an overlay to another file than this one."""
    try:
        found = os.listxattr(f"/proc/self/fd/{directory}/{name}", follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # the file system has no extended attributes
            return
        raise
    wrong = [each for each in found if _own_marks(each) and not each.endswith(_MEANINGLESS)]
    if wrong:
        raise Invalid(f"{name} has the attribute {wrong[0]}, which would lead an overlay elsewhere")


def _copy_attributes(source: int | str, sink: int | str) -> None:
    """Copy the extended attributes, but for those that overlayfs keeps for itself."""
    copy_attributes(source, sink)
    follow = {} if isinstance(sink, int) else {"follow_symlinks": False}
    with contextlib.suppress(OSError):  # a file system without extended attributes has none of these
        for name in filter(_own_marks, os.listxattr(sink, **follow)):
            os.removexattr(sink, name, **follow)

"""Choosing the storage of a data root (overlayfs, or plain copies of layers), and copying layers and directory trees.

`choose` runs in the daemon's main thread before any other starts; `copy_layers` on the thread that creates a container.
Neither leaves a mount behind: the overlay that `choose` tries is attached nowhere (fsopen(2), Linux 5.2; an older
kernel gets copies).
"""

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

from engine.daemon.images.layers.whiteouts import OPAQUE, TRUSTED_OPAQUE, USER_OPAQUE, WHITEOUT
from engine.daemon.tar.trees import remove_tree
from engine.errors import Unavailable
from engine.kernel import modprobe, syscalls, userns, wholefile
from engine.settings.storagedriver import COPIES

OVERLAY, COPY = "overlayfs", "copy"
USERXATTR = "userxattr"
"""The option of an overlay whose marks are attributes that users may set (Linux 5.11)."""
_OVERLAY_OF_USER = f"{OVERLAY} {USERXATTR}"

_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 8 * 1024 * 1024
# Levels of directories that are copied, in a tree that a stranger made. Each takes two descriptors and three calls.
_DEEPEST = 200


def choose(data_root: str, driver: str = "") -> str:
    """`overlayfs` where an overlay mount of directories of data_root works, else `copy`; tried once for a data root.

    Layers are unpacked differently for the two kinds, so the result is kept in a file beside them. So is whether their
    marks are those of a user namespace: root's daemon obeys these too, if it is given the data root.

    driver: the name of dockerd's that the administrator has given, or empty
    Raises OSError, and Unavailable for a driver that the data root does not have or cannot have, and for a Python
    without the functions of extended attributes.
    """
    if not hasattr(os, "setxattr"):
        raise Unavailable("this Python lacks os.setxattr and its kin: with musl they came with Python 3.11.3")
    modprobe.stand_in(modprobe.OVERLAY)
    path = os.path.join(data_root, "storage")
    known = _kept(path)
    fresh = known not in (OVERLAY, _OVERLAY_OF_USER, COPY)
    if fresh:
        known = COPY if driver in COPIES else _found(data_root)
    if driver and (driver in COPIES) != (known == COPY):
        why = "overlays do not work there" if fresh else f"it has the storage {known.partition(' ')[0]}"
        raise Unavailable(f"the data root {data_root} cannot have the storage driver {driver}: {why}")
    if fresh:
        wholefile.write(path, known + "\n", synced=False)
    if known == OVERLAY and not userns.is_hosts():
        raise OSError(errno.EPERM, "root's daemon has made it: only that daemon can mount its layers")
    return OVERLAY if known == _OVERLAY_OF_USER else known


def marks_of_user(data_root: str) -> bool:
    """Whether the overlays of this data root are to be mounted with `userxattr`; after `choose`. Raises OSError."""
    return _kept(os.path.join(data_root, "storage")) == _OVERLAY_OF_USER


def _kept(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def _found(data_root: str) -> str:
    tmp = os.path.join(data_root, "tmp")
    probe = f"storage-{os.getpid()}-{time.time_ns()}"
    for part in ("lower", "upper", "work"):
        os.makedirs(os.path.join(tmp, probe, part), mode=0o700)
    try:
        try_overlay(os.path.join(tmp, probe))
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # a full disk does not show whether overlays work
        # Copies need nothing of what may be missing: overlayfs, trusted.* attributes, the right to mount.
        return COPY
    finally:
        above = os.open(tmp, _READABLE)
        remove_tree(above, probe)
        os.close(above)
    return OVERLAY if userns.is_hosts() else _OVERLAY_OF_USER


def try_overlay(probe: str) -> None:
    """Raise OSError unless whiteouts and overlays' attributes work, and an overlay can delete and make entries."""
    lower, upper, work = (os.path.join(probe, name) for name in ("lower", "upper", "work"))
    os.mknod(os.path.join(lower, "node"), stat.S_IFCHR, os.makedev(0, 0))
    mark = TRUSTED_OPAQUE if userns.is_hosts() else USER_OPAQUE
    os.setxattr(lower, mark, b"y")
    os.removexattr(lower, mark)
    os.mkdir(os.path.join(lower, "directory"))
    with _overlay(lower, upper, work) as top:
        if "node" in os.listdir(top):
            raise OSError(errno.EINVAL, "the whiteout is shown")
        os.rmdir("directory", dir_fd=top)
        # In the place of a deleted directory overlayfs makes an opaque one, by the attribute on the upper layer.
        os.mkdir("directory", dir_fd=top)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, dir_fd=top))


@contextlib.contextmanager
def _overlay(lower: str, upper: str, work: str) -> Iterator[int]:
    """A descriptor of the root of an overlay that is attached nowhere, and ends with its descriptors."""
    context = syscalls.fsopen("overlay")
    try:
        for key, value in (("lowerdir", lower), ("upperdir", upper), ("workdir", work)):
            syscalls.fsconfig(context, syscalls.FSCONFIG_SET_STRING, key, value)
        if not userns.is_hosts():
            syscalls.fsconfig(context, syscalls.FSCONFIG_SET_FLAG, USERXATTR)
        syscalls.fsconfig(context, syscalls.FSCONFIG_CMD_CREATE)
        mount = syscalls.fsmount(context, 0)
    finally:
        os.close(context)
    top = -1
    try:
        top = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=mount)
        yield top
    finally:
        if top >= 0:
            os.close(top)
        os.close(mount)


def copy_layers(base: str, layers: Sequence[str], target: str) -> None:
    """Copy the layers (directories below base, lowest first, unpacked with overlay=False) into the empty `target`.

    Whiteouts are applied, not copied. Owners, modes, times, extended attributes and hard links stay. Raises OSError.
    """
    for layer in layers:
        source = os.open(os.path.join(base, layer), _READABLE)
        sink = os.open(target, _READABLE)
        try:
            _Copy().directory(source, sink)
        finally:
            os.close(source)
            os.close(sink)


def copy_tree(source: int, sink: int, check: Callable[[], None]) -> None:
    """Copy what is in one open directory to another, as `copy_layers` does, but without whiteouts. Raises OSError.

    check: called again and again; it may raise to end the copying. Holes of sparse files become real bytes in the copy.
    """
    _Copy(False, check).directory(source, sink)


class _Copy:
    """The copying of one tree; remembers the copies of files with several links, so that their links stay one file.

    whiteouts: names that begin with `.wh.` are whiteouts, which delete entries; check: as for `copy_tree`
    """

    def __init__(self, whiteouts: bool = True, check: Callable[[], None] = lambda: None) -> None:
        self._links: dict[tuple[int, int], tuple[str, int]] = {}
        self._whiteouts = whiteouts
        self._check = check
        self._top = -1  # descriptor of the sink, which may be mounted in another namespace than this thread's

    def directory(self, source: int, sink: int, depth: int = 0) -> None:
        """Apply the whiteouts in `source` to `sink`, copy all other entries, then the directory's own attributes."""
        self._top = sink if not depth else self._top
        if depth > _DEEPEST:
            raise OSError(errno.ENAMETOOLONG, "the image's directories are nested too deeply")
        names = os.listdir(source)
        if self._whiteouts:
            names = _obeyed(names, sink)
        for name in names:
            self._one(source, sink, name, depth)
        _attend(os.fstat(source), source, sink)

    def _one(self, source: int, sink: int, name: str, depth: int) -> None:
        self._check()
        found = os.stat(name, dir_fd=source, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            self._subdirectory(source, sink, name, depth)
            return
        with contextlib.suppress(FileNotFoundError):
            _remove(sink, name)
        if found.st_nlink > 1 and self._link(found, sink, name):
            return
        if stat.S_ISREG(found.st_mode):
            _copy_file(found, source, sink, name, self._check)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=sink)
            _attend_name(found, source, sink, name)
        else:
            os.mknod(name, found.st_mode, found.st_rdev, dir_fd=sink)
            os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=sink)
            _attend_name(found, source, sink, name)

    def _subdirectory(self, source: int, sink: int, name: str, depth: int) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=sink)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(name, dir_fd=sink, follow_symlinks=False).st_mode):
                _remove(sink, name)
                os.mkdir(name, 0o700, dir_fd=sink)
        inner_source = os.open(name, _READABLE, dir_fd=source)
        inner_sink = os.open(name, _READABLE, dir_fd=sink)
        try:
            self.directory(inner_source, inner_sink, depth + 1)
        finally:
            os.close(inner_source)
            os.close(inner_sink)

    def _link(self, found: os.stat_result, sink: int, name: str) -> bool:
        """Make a hard link to the copy of the same file if there is one; else remember this name. True for a link."""
        key = (found.st_dev, found.st_ino)
        known = self._links.get(key)
        if known is None:
            top, path = (os.readlink(f"/proc/self/fd/{each}") for each in (self._top, sink))
            self._links[key] = (os.path.relpath(os.path.join(path, name), top), found.st_nlink)
            return False
        os.link(known[0], name, src_dir_fd=self._top, dst_dir_fd=sink, follow_symlinks=False)
        return True


def _obeyed(names: list[str], sink: int) -> list[str]:
    """Delete from `sink` what the whiteouts among the names hide; returns the other names."""
    if OPAQUE in names:
        for name in os.listdir(sink):
            _remove(sink, name)
    for name in names:
        if name.startswith(WHITEOUT) and name != OPAQUE:
            with contextlib.suppress(FileNotFoundError):  # it hides a file that no lower layer has
                _remove(sink, name.removeprefix(WHITEOUT))
    return [name for name in names if not name.startswith(WHITEOUT)]


def _remove(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        remove_tree(directory, name)


def _copy_file(found: os.stat_result, source: int, sink: int, name: str, check: Callable[[], None]) -> None:
    old = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
    try:
        new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=sink)
        try:
            copy_bytes(old, new, check)
            _attend(found, old, new)
        finally:
            os.close(new)
    finally:
        os.close(old)


def copy_bytes(old: int, new: int, check: Callable[[], None]) -> None:
    """Copy what is left of an open file to the end of another one. check: as for `copy_tree`"""
    while os.sendfile(new, old, None, _CHUNK):
        check()


def _attend(found: os.stat_result, source: int, sink: int) -> None:
    """Copy owner, extended attributes, mode and times of one open file, in an order in which none undoes another."""
    os.fchown(sink, found.st_uid, found.st_gid)
    copy_attributes(source, sink)
    os.fchmod(sink, stat.S_IMODE(found.st_mode))
    os.utime(sink, ns=(found.st_mtime_ns, found.st_mtime_ns))


def _attend_name(found: os.stat_result, source: int, sink: int, name: str) -> None:
    os.chown(name, found.st_uid, found.st_gid, dir_fd=sink, follow_symlinks=False)
    copy_attributes(f"/proc/self/fd/{source}/{name}", f"/proc/self/fd/{sink}/{name}")
    os.utime(name, ns=(found.st_mtime_ns, found.st_mtime_ns), dir_fd=sink, follow_symlinks=False)


def copy_attributes(source: int | str, sink: int | str) -> None:
    """Copy the extended attributes that this file system and this kernel allow. source, sink: descriptors, or paths"""
    follow = {} if isinstance(source, int) else {"follow_symlinks": False}
    try:
        names = os.listxattr(source, **follow)
    except OSError as error:
        if error.errno == errno.ENOTSUP:  # the file system has no extended attributes
            return
        raise
    for name in names:
        try:
            os.setxattr(sink, name, os.getxattr(source, name, **follow), **follow)
        except OSError as error:
            # As in `tar.extract`: kinds of attributes that this file system or this kernel does not allow.
            if error.errno not in (errno.ENOTSUP, errno.EPERM):
                raise

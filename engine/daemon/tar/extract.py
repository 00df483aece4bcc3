"""Unpacking tar members into files beneath a directory descriptor, for image layers and for copies into containers.

Runs in the daemon, on the thread that unpacks. A stranger has made the stream, and may control the tree too: processes
of a running container can move and replace anything in it meanwhile (CVE-2018-15664). So every parent directory is
opened beneath the root (see `engine.kernel.beneath`). Every last path component is made or changed relative to its
parent's descriptor, and symbolic links there are not followed. A mode is set by a descriptor only. The working
directory and the umask of the process are not changed.
"""

import contextlib
import errno
import logging
import os
import stat
from collections.abc import Callable

from engine.daemon.tar import noted
from engine.daemon.tar import reader as tar
from engine.daemon.tar.space import NoSpace, check_space
from engine.daemon.tar.trees import remove_tree
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons, userns
from engine.kernel.beneath import open_beneath, open_unmounted

log = logging.getLogger(__name__)

# Makes one member; takes its header, its open parent directory, its name there and the reader of its contents.
_Maker = Callable[[tar.Entry, int, str, tar.TarReader], None]

# overlayfs obeys these attributes on any lower layer. An image must mark deleted files by whiteouts only. The engine
# itself believes the last one.
_OVERLAY_ATTRIBUTES = ("trusted.overlay.", "user.overlay.", noted.NOTE)

_LARGEST_ID = 0xFFFFFFFE
_OPEN_DIRECTORIES = 48
DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_READABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Directories whose times are set after their contents; with more than this many waiting, they are set early.
_MOST_WAITING = 50_000
_MOST_IMPLIED = 50_000
# How often a member may replace what another archive, which is unpacked at the same time, has put in its place.
_MOST_REPLACED = 100
_SPACE_STEP = 16 * 1024 * 1024
# What a small file takes on the usual file systems, in bytes.
_ALLOCATION = 4096

# Errors that an archive's members can cause by themselves. Any other errno is a failure of the host.
_CONTENT_ERRNOS = {
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.EXDEV,
    errno.EINVAL,
    errno.ENOENT,
    errno.EEXIST,
    errno.EFBIG,
    errno.EMLINK,
    errno.EILSEQ,
    errno.E2BIG,
    errno.ERANGE,
}


def failure(name: str, error: OSError) -> Exception:
    """The exception for a member that could not be made: NoSpace, Invalid (the archive's fault) or SystemFailure."""
    text = f"failed to unpack {name!r}: {reasons.of(error.errno or errno.EIO)}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(text)
    return Invalid(text) if error.errno in _CONTENT_ERRNOS else SystemFailure(text)


def components(name: str) -> list[str]:
    """The components of a member's name; empty for the root itself. Raises Invalid for `..`."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Invalid(f"invalid path {name!r} in the layer: it contains '..'")
    return parts


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Extraction:
    """One run of unpacking: its open directories, its counts, and the directories whose times are still to be set.

    A subclass says what a member's name means and what is special: its own `add`, and the methods below "What differs".
    what: name of the stream in error messages
    size: bytes that the files take on the disk; implied: directories that had no header, parents first
    """

    what = "layer"

    def __init__(self, root_fd: int):
        self.root = root_fd
        self._open: dict[str, int] = {}
        self._times: dict[str, int] = {}
        self._unchecked = 0
        self.size = 0
        # A dict as an ordered set, parents first.
        self.implied: dict[str, None] = {}
        self._makers: dict[bytes, _Maker] = {
            tar.FILE: self._file,
            tar.LINK: self._hard_link,
            tar.SYMLINK: self._symbolic_link,
            tar.CHARACTER: self._node,
            tar.BLOCK_DEVICE: self._node,
            tar.FIFO: self._node,
        }

    def close(self) -> None:
        """Close all open directories."""
        self._forget_open_except(-1)

    # What differs

    def check_removal(self) -> None:
        """Called again and again while a directory is removed; an override may raise to end the removal."""

    def parts_of(self, name: str) -> list[str]:
        """The path components of a member's name or of a hard link's target."""
        return components(name)

    def open_directory(self, path: str) -> int:
        """A new O_PATH descriptor of the directory at `path` in the tree. Raises OSError."""
        return open_beneath(self.root, path, DIRECTORY)

    def on_replaced(self, found: os.stat_result, parent: int, name: str) -> None:
        """Called when a new directory has replaced a file of another kind, whose status is `found`."""

    def on_null_device(self, entry: tar.Entry, parent: int, name: str) -> bool:
        """Called for a character device 0:0, which overlayfs takes for a whiteout; True if the override handled it."""
        return False

    # Members

    def make(self, entry: tar.Entry, parts: list[str], reader: tar.TarReader) -> None:
        """Make one member. What is in its place is removed: of two members with one name the later one counts."""
        path, above, name = "/".join(parts), "/".join(parts[:-1]), parts[-1]
        parent = self.parent(above)
        if entry.kind == tar.DIRECTORY:
            self._make_directory(parent, name)
            self.attend_directory(entry, path, parent, name)
        else:
            self._replacing(self._makers[entry.kind], entry, parent, name, reader)

    def check(self, entry: tar.Entry) -> None:
        """Raise Invalid for an owner out of range, and count the member's inode for the check of free space."""
        if not (0 <= entry.uid <= _LARGEST_ID and 0 <= entry.gid <= _LARGEST_ID):
            raise Invalid(f"invalid owner {entry.uid}:{entry.gid} of {entry.name!r} in the {self.what}")
        self._count(_ALLOCATION)  # empty files take inodes, and a compressed kilobyte holds a thousand of them

    def made(self, size: int, counted: int, directories: list[tuple[str, int]]) -> None:
        """Take note of members that C has made.

        size: bytes that their files take on the disk; counted: bytes and inodes, for the check of free space
        directories: path and time in ns of each new directory
        Raises OSError, NoSpace.
        """
        self.size += size
        self._count(counted)
        for path, mtime in directories:
            self.implied.pop(path, None)
            self._times[path] = mtime
        if len(self._times) > _MOST_WAITING:
            self.settle_directories()

    def settle_directories(self) -> None:
        """Set the times of the waiting directories; done after their contents, because those change the times."""
        for path, mtime in self._times.items():
            try:
                fd = open_beneath(self.root, path or ".", _READABLE, no_symlinks=True)
            except (FileNotFoundError, NotADirectoryError):
                continue  # a later member took its place
            except OSError as error:
                if error.errno == errno.ELOOP:  # a later member is a symbolic link in its place
                    continue
                raise
            try:
                os.utime(fd, ns=(mtime, mtime))
            finally:
                os.close(fd)
        self._times.clear()

    # Directories

    def parent(self, path: str) -> int:
        """An O_PATH descriptor of the directory, which stays open for the next member. Missing directories are made."""
        if not path:
            return self.root
        fd = self._open.get(path)
        if fd is None:
            try:
                fd = self.open_directory(path)
            except FileNotFoundError:
                self._make_parents(path)
                fd = self.open_directory(path)
            self._keep_open(path, fd)
        return fd

    def _keep_open(self, path: str, fd: int, beside: int = -1) -> None:
        """Keep one more descriptor; beyond `_OPEN_DIRECTORIES` the oldest one is closed, but never `beside`."""
        if len(self._open) >= _OPEN_DIRECTORIES:
            oldest = next(known for known, other in self._open.items() if other != beside)
            os.close(self._open.pop(oldest))
        self._open[path] = fd

    def _make_parents(self, path: str) -> None:
        above = ""
        for name in path.split("/"):
            fd = self.open_directory(above or ".")
            above = f"{above}/{name}" if above else name
            try:
                os.mkdir(name, 0o755, dir_fd=fd)
                # Once more, because mkdir(2) has applied the daemon's umask.
                set_mode(fd, name, 0o755)
                self.implied[above] = None
                self.size += _ALLOCATION
                if len(self.implied) > _MOST_IMPLIED:
                    raise Invalid(f"more than {_MOST_IMPLIED} directories without a header in the {self.what}")
            except FileExistsError:
                pass  # a directory, or a link, whose target the next open looks for beneath the root only
            finally:
                os.close(fd)

    def _make_directory(self, parent: int, name: str) -> None:
        try:
            os.mkdir(name, 0o700, dir_fd=parent)
        except FileExistsError:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                return
            self.remove(parent, name)
            os.mkdir(name, 0o700, dir_fd=parent)
            self.on_replaced(found, parent, name)
        self.size += _ALLOCATION

    def attend_directory(self, entry: tar.Entry, path: str, parent: int, name: str) -> None:
        """Set owner, extended attributes and mode of a directory that exists; its times are set at the end."""
        fd = os.open(name, _READABLE | os.O_NOFOLLOW, dir_fd=parent)
        try:
            mode = noted.give(fd, noted.Owner(entry.uid, entry.gid, entry.mode))
            self._set_attributes(entry, fd)
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
        self.implied.pop(path, None)
        self._times[path] = _bounded(entry.mtime_ns)
        if len(self._times) > _MOST_WAITING:
            self.settle_directories()

    # Everything else

    def _replacing(self, make: _Maker, entry: tar.Entry, parent: int, name: str, reader: tar.TarReader) -> None:
        for _ in range(_MOST_REPLACED):
            try:
                make(entry, parent, name, reader)
                return
            except FileExistsError:
                pass
            except FileNotFoundError:
                # Another archive has removed the new member before its owner and mode were set by its name. Files get
                # theirs by a descriptor, so for them this is another error.
                if entry.kind in (tar.FILE, tar.LINK):
                    raise
            if entry.kind == tar.LINK and self._is_same(entry, parent, name):
                return
            with contextlib.suppress(FileNotFoundError):
                self.remove(parent, name)
        make(entry, parent, name, reader)

    def remove(self, parent: int, name: str) -> None:
        """Remove the entry `name` of the directory `parent`, with all that is in it; EBUSY for what is mounted."""
        os.close(open_unmounted(parent, name, os.O_PATH))
        try:
            os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            remove_tree(parent, name, self.check_removal)
        # A path that led through the removed entry leads elsewhere now, so the open directories are not valid any more.
        self._forget_open_except(parent)

    def _forget_open_except(self, keep: int) -> None:
        for path, fd in list(self._open.items()):
            if fd != keep:
                os.close(self._open.pop(path))

    def _file(self, entry: tar.Entry, parent: int, name: str, reader: tar.TarReader) -> None:
        fd = os.open(name, CREATE, 0o600, dir_fd=parent)
        try:
            if entry.fragments is None:
                for data in reader.chunks():
                    _write(fd, data)
                    self._count(len(data))
            else:
                self._sparse(entry, fd, reader)
            mode = noted.give(fd, noted.Owner(entry.uid, entry.gid, entry.mode))
            # After chown, which clears the setuid bit and file capabilities.
            self._set_attributes(entry, fd)
            os.fchmod(fd, mode)
            mtime = _bounded(entry.mtime_ns)
            os.utime(fd, ns=(mtime, mtime))
        finally:
            os.close(fd)
        self.size += -(-entry.stored // _ALLOCATION) * _ALLOCATION

    def _sparse(self, entry: tar.Entry, fd: int, reader: tar.TarReader) -> None:
        pieces = reader.chunks()
        data = b""
        for offset, length in entry.fragments or ():
            os.lseek(fd, offset, os.SEEK_SET)
            while length:
                data = data or next(pieces)
                _write(fd, data[:length])
                self._count(min(length, len(data)))
                length, data = length - min(length, len(data)), data[length:]
        os.ftruncate(fd, entry.size)

    def _count(self, count: int) -> None:
        self._unchecked += count
        if self._unchecked >= _SPACE_STEP:
            self._unchecked = 0
            check_space(self.root)

    def _hard_link(self, entry: tar.Entry, parent: int, name: str, _: tar.TarReader) -> None:
        source, source_name = self._link_source(entry, parent)
        os.link(source_name, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)

    def _link_source(self, entry: tar.Entry, parent: int) -> tuple[int, str]:
        parts = self.parts_of(entry.link)
        if not parts:
            raise Invalid(f"invalid hard link {entry.name!r} in the {self.what}")
        above = "/".join(parts[:-1])
        # Opened without making missing directories: a link to a missing file is an error.
        fd = self._open.get(above) if above else self.root
        if fd is None:
            fd = self.open_directory(above)
            self._keep_open(above, fd, beside=parent)
        return fd, parts[-1]

    def _is_same(self, entry: tar.Entry, parent: int, name: str) -> bool:
        """True where the hard link exists already, for instance because the archive has the member twice."""
        source, source_name = self._link_source(entry, parent)
        there = os.stat(name, dir_fd=parent, follow_symlinks=False)
        return os.path.samestat(there, os.stat(source_name, dir_fd=source, follow_symlinks=False))

    def _symbolic_link(self, entry: tar.Entry, parent: int, name: str, _: tar.TarReader) -> None:
        os.symlink(entry.link, name, dir_fd=parent)
        self._attend(entry, parent, name)

    def _node(self, entry: tar.Entry, parent: int, name: str, _: tar.TarReader) -> None:
        kind = {tar.CHARACTER: stat.S_IFCHR, tar.BLOCK_DEVICE: stat.S_IFBLK, tar.FIFO: stat.S_IFIFO}[entry.kind]
        if not (0 <= entry.major < 1 << 12 and 0 <= entry.minor < 1 << 20):
            raise Invalid(f"invalid device {entry.major}:{entry.minor} of {entry.name!r} in the {self.what}")
        null = kind == stat.S_IFCHR and (entry.major, entry.minor) == (0, 0)
        if null and self.on_null_device(entry, parent, name):
            return
        if kind != stat.S_IFIFO and not userns.is_hosts():
            log.debug("the device %r is left out: a user may make none", entry.name)
            return
        os.mknod(name, kind | 0o600, os.makedev(entry.major, entry.minor), dir_fd=parent)
        self._attend(entry, parent, name)
        set_mode(parent, name, entry.mode)

    def _attend(self, entry: tar.Entry, parent: int, name: str) -> None:
        """Set owner, extended attributes and times by name, for a file that cannot be opened: a link or a device."""
        noted.give_by_name(parent, name, noted.Owner(entry.uid, entry.gid, entry.mode))
        if entry.attributes:
            self._set_attributes(entry, f"/proc/self/fd/{parent}/{name}")
        mtime = _bounded(entry.mtime_ns)
        os.utime(name, ns=(mtime, mtime), dir_fd=parent, follow_symlinks=False)

    def _set_attributes(self, entry: tar.Entry, target: int | str) -> None:
        for name, value in entry.attributes.items():
            if name.startswith(_OVERLAY_ATTRIBUTES):
                log.debug("the attribute %s of %r is left out: only the engine may set it", name, entry.name)
                continue
            try:
                # os.setxattr takes no follow_symlinks with a descriptor.
                if isinstance(target, int):
                    os.setxattr(target, name, value)
                else:
                    os.setxattr(target, name, value, follow_symlinks=False)
            except OSError as error:
                # ENOTSUP: the file system has no such attributes. EPERM: the kernel allows user.* on files and
                # directories only, and some security.* to their own module only. dockerd ignores both errors.
                if error.errno not in (errno.ENOTSUP, errno.EPERM):
                    raise
                log.debug("the attribute %s of %r is left out: %s", name, entry.name, error.strerror)


def set_mode(parent: int, name: str, mode: int) -> None:
    """Set the mode of `name` itself. chmod(2) by name would follow a symbolic link that was put in its place."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        # A symbolic link has no mode of its own.
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _bounded(mtime_ns: int) -> int:
    """The time in ns, or 0 (the epoch) for one that the system calls do not take, as dockerd's boundTime does."""
    return mtime_ns if 0 <= mtime_ns < 1 << 63 else 0

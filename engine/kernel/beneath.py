"""Opens and makes files and directories beneath a directory descriptor, so that no symbolic link or ".." can lead out
of it.

Used by init (the image decides the contents of a container's root) and by the daemon (to unpack layers). With
openat2(2), Linux 5.6, the kernel resolves the path. Without it a walk does the same: it opens one component at a time
with O_NOFOLLOW. Returned descriptors are close-on-exec, and the caller closes them. The working directory is never
changed.
"""

import errno
import os
import stat
from collections.abc import Callable

from engine.kernel import syscalls

_PLACE = os.O_PATH | os.O_CLOEXEC
_MOST_LINKS = 40
_MOST_FOLLOWED = 255  # the limit of docker, whose own code follows links too
_LONGEST = 4096  # PATH_MAX, of what is asked for: with `a/../` a path can be walked for ever
_RETRIES = 8
_MODE_OF_LINKS = 0o777  # symlink(7)
_NO_LINKS = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS
_FORBIDDEN = frozenset({errno.ENOSYS, errno.EPERM})


def open_beneath(root_fd: int, path: str, flags: int, mode: int = 0, *, no_symlinks: bool = False) -> int:
    """Open `path` as if `root_fd` were "/": symbolic links and ".." lead anywhere inside it, never outside.

    flags are O_* bits, mode is for O_CREAT. With `no_symlinks` a symbolic link anywhere in the path is ELOOP (with
    O_PATH|O_NOFOLLOW too). Raises OSError as open(2) does; EXDEV where the path would leave the root.
    """
    relative = path.strip("/") or "."
    if path.endswith("/"):
        flags |= os.O_DIRECTORY
    return _open(root_fd, relative, flags, mode, _NO_LINKS if no_symlinks else syscalls.RESOLVE_IN_ROOT)


def open_within(root_fd: int, path: str, flags: int) -> int:
    """Open a relative path that may not lead out of `root_fd`, not even for a part of its way, nor by a symbolic link.

    Raises OSError as open(2) does; EXDEV where the path, or a link on it, leads outside or is absolute.
    """
    return _open(root_fd, path or ".", flags, 0, syscalls.RESOLVE_BENEATH)


def open_unmounted(directory: int, name: str, flags: int) -> int:
    """Open the entry `name` of a directory itself: a symbolic link is not followed, and a mount not entered.

    The kernel refuses to remove a mount point only where it is one in the caller's own mount namespace, and takes the
    mount away in all others. Raises OSError as open(2) does; EBUSY where something is mounted on the entry.
    """
    try:
        return _open(directory, name, flags | os.O_NOFOLLOW, 0, syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_XDEV)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name) from error


def followed(path: str, link_at: Callable[[str], str | None]) -> str:
    """The path, relative to its root, with its symbolic links followed as if that root were "/"; "" is the root itself.

    link_at: called with a path whose directories are no links; returns the link's target if the path is a symbolic
    link, else None; an exception from it ends the walk
    Raises OSError (ELOOP, ENAMETOOLONG).
    """
    if len(path) >= _LONGEST:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    done: list[str] = []
    waiting = path.split("/")[::-1]
    links = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done[:-1]
            continue
        link = link_at("/".join([*done, part]))
        if link is None:
            done.append(part)
            continue
        links += 1
        if links > _MOST_FOLLOWED:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if link.startswith("/"):
            done = []
        waiting.extend(link.split("/")[::-1])
    return "/".join(done)


def _open_by_kernel(root_fd: int, path: str, flags: int, mode: int, resolve: int) -> int:
    for _ in range(_RETRIES):
        try:
            return syscalls.openat2(root_fd, path, flags, mode if flags & os.O_CREAT else 0, resolve)
        except OSError as error:
            if error.errno in _FORBIDDEN:
                # A container's seccomp filter, once loaded, may be too old to know this call. If the access itself is
                # forbidden, the walk is refused too.
                return _open_by_walk(root_fd, path, flags, mode, resolve)
            # EAGAIN: a rename or a mount happened somewhere on the host while ".." was resolved, and the kernel asks to
            # try again.
            if error.errno != errno.EAGAIN:
                error.filename = path
                raise
    # On a busy host, a path with many ".." may never be resolved without such a disturbance. The walk needs no quiet
    # moment.
    return _open_by_walk(root_fd, path, flags, mode, resolve)


def _open_by_walk(root_fd: int, path: str, flags: int, mode: int, resolve: int) -> int:
    """Do the work of openat2 by a walk: the trail of open directories makes ".." safe against renames."""
    no_symlinks = bool(resolve & syscalls.RESOLVE_NO_SYMLINKS)
    stays = bool(resolve & syscalls.RESOLVE_BENEATH)
    trail = [os.dup(root_fd)]
    todo = path.split("/")[::-1]
    links = 0
    try:
        while True:
            name = todo.pop() if todo else "."
            if name == "..":
                if stays and len(trail) == 1:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                if len(trail) > 1:
                    os.close(trail.pop())
                if todo:
                    continue
                name = "."
            if name in ("", ".") and todo:
                continue
            target = _link_at(trail[-1], name)
            if target is not None and (todo or no_symlinks or not flags & os.O_NOFOLLOW):
                links += 1
                if no_symlinks or links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if stays and target.startswith("/"):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                if target.startswith("/"):
                    while len(trail) > 1:
                        os.close(trail.pop())
                todo.extend(target.split("/")[::-1])
                continue
            if not todo:
                if resolve & syscalls.RESOLVE_NO_XDEV and _mount_of(trail[-1], name) != _mount_of(trail[-1], "."):
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
                return os.open(name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=trail[-1])
            trail.append(os.open(name, _PLACE | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=trail[-1]))
    except OSError as error:
        error.filename = path
        raise
    finally:
        for fd in trail:
            os.close(fd)


def _mount_of(dir_fd: int, name: str) -> bytes:
    """The number of the mount that the entry `name` is in, as the kernel shows it (proc_pid_fdinfo(5))."""
    fd = os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        with open(f"/proc/thread-self/fdinfo/{fd}", "rb") as file:
            return next(line for line in file if line.startswith(b"mnt_id:"))
    finally:
        os.close(fd)


def _link_at(dir_fd: int, name: str) -> str | None:
    """The target of the symbolic link `name`; None where `name` is no symbolic link.

    Raises OSError (ELOOP) for a magic link of /proc (proc_pid_fd(5)), whose text is a path of the host's. It has not
    both the size and the mode of a link.
    """
    try:
        target = os.readlink(name or ".", dir_fd=dir_fd)
        if not target.startswith("/"):
            return target
        link = os.open(name, _PLACE | os.O_NOFOLLOW, dir_fd=dir_fd)
        try:
            found, target = os.fstat(link), os.readlink("", dir_fd=link)
        finally:
            os.close(link)
        if found.st_size != len(os.fsencode(target)) or stat.S_IMODE(found.st_mode) != _MODE_OF_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        return target
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # no link, or no such file: open(2) will tell which
            return None
        raise


def _kernel_resolves() -> bool:
    try:
        os.close(syscalls.openat2(-100, "/", _PLACE, 0, 0))
    except OSError as error:
        # EPERM: an old seccomp profile around the engine itself answers so for calls that it does not know.
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return False
        raise
    return True


_open = _open_by_kernel if _kernel_resolves() else _open_by_walk


def make_directories(root_fd: int, path: str, mode: int = 0o755) -> int:
    """Open the directory `path` beneath the root (O_PATH), and make its missing parts with `mode`.

    The target of a dangling symbolic link is made, inside the root. Raises NotADirectoryError where a file is in the
    way.
    """
    for _ in range(_MOST_LINKS):
        try:
            return open_beneath(root_fd, path, _PLACE | os.O_DIRECTORY)
        except FileNotFoundError:
            if not _made_last(root_fd, path, mode):
                path = _make_missing(root_fd, path, mode)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _made_last(root_fd: int, path: str, mode: int) -> bool:
    """Make the last part alone, which is mostly all that is missing; False when it is not."""
    above, _, name = path.rstrip("/").rpartition("/")
    try:
        parent = open_beneath(root_fd, above, _PLACE | os.O_DIRECTORY)
    except FileNotFoundError:
        return False
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except (FileExistsError, FileNotFoundError):  # a dangling link, or a name of dots only
        return False
    finally:
        os.close(parent)
    return True


def _make_missing(root_fd: int, path: str, mode: int) -> str:
    """Make the missing parts; returns the path to open next, which is another one after a dangling link."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    for at in range(len(names)):
        above, name = "/".join(names[:at]), names[at]
        parent = open_beneath(root_fd, above, _PLACE | os.O_DIRECTORY)
        try:
            try:
                os.mkdir(name, mode, dir_fd=parent)
                continue
            except FileExistsError:
                target = _link_at(parent, name)
        finally:
            os.close(parent)
        if target is not None and not _exists(root_fd, f"{above}/{name}"):
            start = target if target.startswith("/") else f"{above}/{target}"
            return "/".join([start, *names[at + 1 :]])
    return path


def _exists(root_fd: int, path: str) -> bool:
    try:
        os.close(open_beneath(root_fd, path, _PLACE))
    except FileNotFoundError:
        return False
    return True


def make_file(root_fd: int, path: str, mode: int = 0o644) -> int:
    """Open the file `path` beneath the root (O_PATH); a missing file is made empty, with its directories.

    The target of a dangling symbolic link is made, inside the root.
    """
    for _ in range(_MOST_LINKS):
        try:
            return open_beneath(root_fd, path, _PLACE)
        except FileNotFoundError:
            above, name = os.path.split(path)
            parent = make_directories(root_fd, above)
            try:
                target = _link_at(parent, name)
            finally:
                os.close(parent)
        if target is None:
            os.close(open_beneath(root_fd, path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, mode))
        else:
            path = target if target.startswith("/") else f"{above}/{target}"
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def is_directory(fd: int) -> bool:
    """Whether the descriptor (also an O_PATH one) is a directory's."""
    return stat.S_ISDIR(os.fstat(fd).st_mode)

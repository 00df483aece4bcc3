"""Make the places in a container's root on which the engine mounts, as dockerd's init layer has them.

Runs in the daemon, on the thread that makes a container's root and on those that compare or measure it. dockerd has
these files in a layer of their own between the image and what the container writes, whatever the image has there; here
they are in the container's own directory, and count neither as changes nor as its size.
"""

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator, Sequence

from engine.dataclass import dataclass
from engine.kernel import weigh
from engine.kernel.beneath import open_beneath

_DIRECTORY, _FILE = "directory", "file"
# Each place, and what it is; a symbolic link is given by its target. A directory comes before what is in it.
_PLACES = {
    "dev": _DIRECTORY,
    "dev/console": _FILE,
    "dev/pts": _DIRECTORY,
    "dev/shm": _DIRECTORY,
    "etc": _DIRECTORY,
    "etc/hostname": _FILE,
    "etc/hosts": _FILE,
    "etc/mtab": "/proc/mounts",
    "etc/resolv.conf": _FILE,
    ".dockerenv": _FILE,
    "proc": _DIRECTORY,
    "sys": _DIRECTORY,
}
_PARENTS = ("dev", "etc")
PATHS = frozenset(f"/{place}" for place in _PLACES)
"""The places, as a container names them."""
FILES = PATHS - {"/dev", "/proc", "/sys"}
"""Those that BuildKit takes away after a command; of the others an image has what it lacked."""
NAMES = {
    above and f"/{above}": [each.rpartition("/")[2] for each in _PLACES if each.rpartition("/")[0] == above]
    for above in ("", *_PARENTS)
}
"""The names of the places in each directory."""
_MODE = 0o755
_TOP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
# The attributes of an overlay itself, and those that the kernel or a security module gives to each file it makes.
_NOT_COPIED = ("trusted.overlay.", "user.overlay.", "security.")


@dataclass(frozen=True, slots=True)
class _Directory:
    """What an image's directory is made again with."""

    mode: int
    owner: tuple[int, int]
    attributes: dict[str, bytes]


_PLAIN = _Directory(_MODE, (0, 0), {})


def fill(root: str, layers: Sequence[str] = ()) -> None:
    """Make the places in a root that nobody uses yet. Raises OSError.

    As in dockerd, an image's directory stays, and whatever else the image has in a place is covered by an empty one.
    layers: directories of the image's layers, the lowest first, over which the root will be mounted; what is in the
        root then is a container's, and stays. None where the root has the image's files itself
    """
    present = _directories(tuple(layers)) if layers else _found((root,))
    with contextlib.ExitStack() as opened:
        tops = {"": _opened(opened, root)}
        for place, form in _PLACES.items():
            parent, _, name = place.rpartition("/")
            there = present.get(place)
            if parent not in tops:
                continue
            if there is None or (layers and place in _PARENTS):
                if not layers:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=tops[parent])
                with contextlib.suppress(FileExistsError):
                    _make(tops[parent], name, form, there)
            if place in _PARENTS:
                with contextlib.suppress(NotADirectoryError):  # a container may have put anything there
                    tops[place] = _opened(opened, name, tops[parent])


def _opened(opened: contextlib.ExitStack, name: str, directory: int | None = None) -> int:
    fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    opened.callback(os.close, fd)
    return fd


def _make(directory: int, name: str, form: str, there: _Directory | None) -> None:
    if form == _FILE:
        os.mknod(name, _MODE | stat.S_IFREG, dir_fd=directory)
    elif form != _DIRECTORY:
        os.symlink(form, name, dir_fd=directory)
    else:
        os.mkdir(name, _MODE, dir_fd=directory)
        if there not in (None, _PLAIN):
            with contextlib.ExitStack() as opened:
                _liken(_opened(opened, name, directory), there)


def _liken(fd: int, there: _Directory) -> None:
    os.fchown(fd, *there.owner)
    os.fchmod(fd, there.mode)
    for name, value in there.attributes.items():
        os.setxattr(fd, name, value)


# Cached, since an unpacked layer never changes and its number is never given to another layer.
@functools.lru_cache(maxsize=64)
def _directories(layers: tuple[str, ...]) -> dict[str, _Directory]:
    return _found(layers[::-1])


def _found(tops: tuple[str, ...]) -> dict[str, _Directory]:
    """Those of the places that are directories in these trees, of which the first lies over the others."""
    found: dict[str, _Directory] = {}
    above: dict[str, list[str]] = {"": list(tops)}
    for place in _PLACES:
        parent, _, name = place.rpartition("/")
        paths = [os.path.join(top, name) for top in above.get(parent, ())]
        above[place] = list(_merged(paths))
        if above[place]:
            status = os.lstat(above[place][0])
            found[place] = _Directory(
                stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), _attributes(above[place][0])
            )
    return found


def _merged(paths: list[str]) -> Iterator[str]:
    """Those of the paths that are directories, down to the first that is something else, as an overlay has them."""
    for path in paths:
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(mode):
            return
        yield path


def _attributes(path: str) -> dict[str, bytes]:
    names = (name for name in os.listxattr(path) if not name.startswith(_NOT_COPIED))
    return {name: os.getxattr(path, name) for name in names}


def is_filled(root: int) -> bool:
    """Whether the root behind a descriptor has got the places: those of older releases made some at the first start.

    What covers this one, in a container that runs, are the devices.
    """
    try:
        os.stat("dev/console", dir_fd=root, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return False
        raise
    return True


def is_as_made(path: str, directory: int, name: str, found: os.stat_result) -> bool:
    """Whether a file in one of the places is as it was made. Older releases made some with another mode.

    path: its place in the container; directory, name: where it is now
    """
    form = _PLACES[path[1:]]
    if stat.S_ISDIR(found.st_mode):
        return form == _DIRECTORY
    if form == _FILE:
        return stat.S_ISREG(found.st_mode) and not found.st_size
    return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=directory) == form


def room(root: str) -> int:
    """The bytes that the directories among the places take on the disk."""
    total = 0
    top = os.open(root, _TOP)
    try:
        for place in (place for place, form in _PLACES.items() if form == _DIRECTORY):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                fd = open_beneath(top, place, _TOP, no_symlinks=True)
                total += weigh.room(os.fstat(fd))
                os.close(fd)
    finally:
        os.close(top)
    return total

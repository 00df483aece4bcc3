"""Opens the source of a bind, and the part of a mount's source that is asked for, without being led out of it.

Runs in init, and in the daemon for a stopped container's files. It mounts nothing.
"""

import errno
import os

from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.kernel.beneath import open_beneath, open_within
from engine.sandbox.spec import Mount

_PLACE = os.O_PATH | os.O_CLOEXEC


def open_source(mount: Mount, *, straight: bool = False) -> int:
    """The source of a bind (O_PATH), as this process sees its path, or the part of it that is asked for.

    straight: a symbolic link in the path of the source is ELOOP. Raises OSError, and what `open_part` raises.
    """
    source = _straight(mount.source) if straight else os.open(mount.source, _PLACE)
    if not mount.subpath:
        return source
    try:
        return open_part(source, mount)
    finally:
        os.close(source)


def _straight(path: str) -> int:
    root = os.open("/", _PLACE | os.O_DIRECTORY)
    try:
        return open_beneath(root, path, _PLACE, no_symlinks=True)
    finally:
        os.close(root)


def open_part(root_fd: int, mount: Mount) -> int:
    """The part of a mount's source that is asked for (O_PATH), beneath the source's root.

    Raises Invalid in docker's words where the part lies outside, SystemFailure where it is not there.
    """
    try:
        if mount.subpath.startswith("/"):
            return open_beneath(root_fd, mount.subpath, _PLACE)
        return open_within(root_fd, mount.subpath, _PLACE)
    except OSError as error:
        base = mount.place or mount.source
        if error.errno == errno.EXDEV:
            where = f"base: {base}, subpath: {mount.subpath}"
            raise Invalid(f"path concatenation escapes the base directory, {where}") from error
        subpath, words = mount.subpath.lstrip("/"), reasons.of(error)
        if error.errno != errno.ENOENT:
            words = f'error while resolving symlinks in combined path "{base}/{subpath}": {words}'
            raise SystemFailure(words) from error
        words = f"lstat {base}/{_first_missing(root_fd, subpath)}: {words}"
        raise SystemFailure(f"cannot access path {base}/{subpath}: {words}") from error


def _first_missing(root_fd: int, subpath: str) -> str:
    """A path that cannot be opened, up to its first component that cannot."""
    parts = subpath.split("/")
    for count in range(1, len(parts)):
        part = "/".join(parts[:count])
        try:
            os.close(open_beneath(root_fd, part, _PLACE))
        except OSError:
            return part
    return subpath

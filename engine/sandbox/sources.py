"""Opens the sources of mounts that were asked for, each once, as a detached mount (open_tree(2)).

Runs in init, before anything of the container is in place. Each path is looked up where it belongs: a bind's source on
the host as it is at this moment (a spare was forked from an older state, so it goes back to the host's mount
namespace), a path below a volume beneath that volume's root, a file system that another container has already in that
container. It never follows a symbolic link out of a volume, and no process can replace what it returns.
"""

import errno
import os
from collections.abc import Iterable, Sequence

from engine.errors import SystemFailure
from engine.kernel import syscalls
from engine.kernel.beneath import open_beneath
from engine.regex import regex
from engine.sandbox import mounts, subpaths
from engine.sandbox.spec import Mount

_PLACE = os.O_PATH | os.O_CLOEXEC
_OWN = "/proc/self/ns/mnt"
_PASSWORD = regex(r"\bpass(?:word)?2?=[^,]+")  # of mount.cifs(8)


def of_host(wanted: Iterable[Mount], host: int = -1, users: int = -1) -> dict[Mount, int]:
    """The sources of binds, by their mount; to be called while the namespace still shares its mounts.

    host: the host's mount namespace, if this process is not in a fresh copy of it. On a kernel without open_tree(2),
        plain binds are opened later, by their path; users: see `mounts.detached`. Raises SystemFailure in runc's words.
    """
    binds = [
        mount
        for mount in wanted
        if mount.kind == "bind" and (mount.asked or "idmap" in mount.flags or mounts.keeps_peers(mount))
    ]
    if not binds:
        return {}
    if host < 0:
        return _opened(binds, users)
    own = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    syscalls.setns(host, syscalls.CLONE_NEWNS)
    try:
        return _opened(binds, users)
    finally:
        syscalls.setns(own, syscalls.CLONE_NEWNS)
        os.close(own)


def _opened(binds: list[Mount], users: int) -> dict[Mount, int]:
    found = {}
    for mount in binds:
        try:
            source, mapped = _source(mount)
            try:
                found[mount] = mounts.detached(source, mount, users if mapped else -1)
            finally:
                os.close(source)
        except OSError as error:
            if mounts.is_unknown(error) and not mounts.keeps_peers(mount):
                continue
            raise mounts.failure(mount, error, mounts.source_words(mount, error)) from error
    return found


def _source(mount: Mount) -> tuple[int, bool]:
    """The source of a bind, and whether its ids may be mapped: not where a symbolic link has led there.

    A container can make one in its volume, to any directory of the host.
    """
    if "idmap" in mount.flags:
        try:
            return subpaths.open_source(mount, straight=True), True
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
    return subpaths.open_source(mount), False


def made_here(wanted: Iterable[Mount]) -> dict[Mount, int]:
    """File systems that are mounted for this container alone, or shared with another one, by their mount.

    Each is mounted on the host directory `Mount.place` for a moment, which only this namespace sees: the caller has
    left all peers. On a kernel without open_tree(2), a file system that is shown as a whole is mounted later. Raises
    SystemFailure.
    """
    found: dict[Mount, int] = {}
    try:
        for mount in wanted:
            if mount.place or mount.holder:
                tree = _had(mount)
                if tree >= 0:
                    found[mount] = tree
    except BaseException:
        for tree in found.values():
            os.close(tree)
        raise
    return found


def _had(mount: Mount) -> int:
    try:
        tree = _shared(mount, mount.holder) if mount.holder else -1
        if tree < 0 and not mount.place:
            raise SystemFailure(f"the container whose {mount.target} is to be shared has ended")
        return tree if tree >= 0 else _made(mount)
    except OSError as error:
        if mounts.is_unknown(error) and mount.place and not mount.subpath:
            return -1
        raise SystemFailure(words(mount, error)) from error


def words(mount: Mount, error: OSError) -> str:
    """The words for a mount that failed: for a volume with options docker uses those of its daemon."""
    if mount.kind == "image" or not mount.place:
        return mounts.mount_words(mount, error)
    return f"error while mounting volume '{mount.place}': {_volume_words(mount, error)}"


def _volume_words(mount: Mount, error: OSError) -> str:
    """Why the file system that a volume's options name could not be mounted on its directory, `Mount.place`."""
    bits = 0
    for name in mount.flags:
        bits |= mounts.FLAGS[name]
    flags = f", flags: {bits:#x}" if bits else ""
    data = f", data: {_PASSWORD.sub('password=********', mount.data)}" if mount.data else ""
    return f"failed to mount local volume: mount {mount.source}:{mount.place}{flags}{data}: {mounts.words(error)}"


def add_all(root_fd: int, wanted: Sequence[Mount]) -> None:
    """Make mounts beneath a root, for a process other than init, which lives on. Raises what `mounts.add` raises."""
    made = made_here(wanted)
    try:
        for mount in wanted:
            mounts.add(root_fd, mount, made.pop(mount, -1))
    finally:
        for tree in made.values():
            os.close(tree)


def _made(mount: Mount) -> int:
    place = os.open(mount.place, _PLACE | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        mounts.mount_on(place, mount)
        # The new mount lies on top of its place: look it up anew.
        top = os.open(mount.place, _PLACE | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            return _shown(top, mount)
        finally:
            os.fchdir(top)
            syscalls.umount2(".", syscalls.MNT_DETACH)
            os.close(top)
    finally:
        os.close(place)


def _shown(top: int, mount: Mount) -> int:
    """A detached copy of the part of the file system that is asked for."""
    inner = subpaths.open_part(top, mount)
    try:
        return mounts.detached(inner, mount)
    finally:
        os.close(inner)


def _shared(mount: Mount, holder: tuple[int, int, str]) -> int:
    """The file system as the holder has it mounted; -1 when that process is gone."""
    pid, start, where = holder
    own = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            theirs = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return -1
        try:
            # The descriptor was opened first: if the pid still names the right process now, it did then.
            if _start_of(pid) != start:
                return -1
            syscalls.setns(theirs, syscalls.CLONE_NEWNS)
        finally:
            os.close(theirs)
        try:
            root = os.open("/", _PLACE | os.O_DIRECTORY)
            try:
                top = open_beneath(root, where, _PLACE)
            finally:
                os.close(root)
            try:
                return _shown(top, mount)
            finally:
                os.close(top)
        finally:
            syscalls.setns(own, syscalls.CLONE_NEWNS)
    finally:
        os.close(own)


def _start_of(pid: int) -> int:
    try:
        return syscalls.process_start(pid)
    except (FileNotFoundError, ProcessLookupError):
        return -1

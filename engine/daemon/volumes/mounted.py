"""Copying image contents into a volume whose options mount a host directory or a file system.

Runs in the daemon, on the thread that creates a container. A file system is mounted in the mount namespace of a thread
that is made for it, and the mount ends with that thread. A tmpfs is not filled: it begins empty with the first
container that uses it.
"""

import os
import stat
import threading

from engine.daemon.volumes import fill
from engine.daemon.volumes.options import Mounting
from engine.daemon.volumes.volume import Volume
from engine.errors import SystemFailure
from engine.kernel import syscalls
from engine.sandbox import mounts, sources
from engine.sandbox.spec import Mount


def fill_mounted(root_fd: int, place: str, volume: Volume, mounting: Mounting, subpath: str) -> None:
    """Copy what is in the directory `place` of the root to what the volume's options mount, as `fill.fill` does.

    mounting: anything but a tmpfs. Where the root has nothing at `place`, nothing is mounted: a file server that is
        down shall fail the container's start, not its creation.
    Raises SystemFailure in dockerd's words for what cannot be mounted, OSError.
    """
    if not fill.is_there(root_fd, place):
        return
    mount = Mount(
        *(mounting.kind, mounting.device, "", mounting.flags, mounting.data), place=volume.path, subpath=subpath
    )
    if mounting.kind == "bind":
        _fill_bound(root_fd, place, mount)
        return
    failures: list[BaseException] = []

    def work() -> None:
        try:
            _mount(mount)
            _fill_empty(root_fd, place, volume.path, mount)
        except BaseException as error:  # raised again in the thread that called `fill_mounted`
            failures.append(error)

    thread = threading.Thread(target=work, name="fill")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _fill_bound(root_fd: int, place: str, mount: Mount) -> None:
    try:
        mode = os.stat(mount.source).st_mode
    except OSError as error:
        raise SystemFailure(f"failed to populate volume: {sources.words(mount, error)}") from error
    if stat.S_ISDIR(mode):
        # A symbolic link there is the host's own, and a bind mount follows it too.
        _fill_empty(root_fd, place, os.path.realpath(mount.source), mount)


def _fill_empty(root_fd: int, place: str, path: str, mount: Mount) -> None:
    if "ro" not in mount.flags:
        fill.fill(root_fd, place, path, mount.subpath)


def _mount(mount: Mount) -> None:
    """Mount in a new mount namespace of this thread, which must end afterwards."""
    try:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        mounts.leave_peers()
    except OSError as error:
        raise SystemFailure(f"no mount namespace can be made: {mounts.words(error)}") from error
    place = os.open(mount.place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        mounts.mount_on(place, mount)
    except OSError as error:
        raise SystemFailure(f"failed to populate volume: {sources.words(mount, error)}") from error
    finally:
        os.close(place)

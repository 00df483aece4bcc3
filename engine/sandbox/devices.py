"""Makes a container's device nodes, the links beside them in /dev, and its terminal.

Runs in init before pivot_root, with umask 0, on places opened beneath the root; an exec's joiner opens its terminal
with it. In a user namespace nobody can make a node: there the host's own are bound. It never opens a device's node
except the container's own ptmx.
"""

import fcntl
import os
import stat
import termios
from collections.abc import Iterable

from engine.errors import SystemFailure
from engine.kernel import userns
from engine.kernel.beneath import make_directories, make_file, open_beneath
from engine.sandbox.mounts import attach
from engine.sandbox.procguard import check_outside_proc
from engine.sandbox.spec import Device

_CORE = "/proc/kcore"
LINKS: tuple[tuple[str, str], ...] = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
    *([("core", _CORE)] if os.path.exists(_CORE) else []),
)
"""The links in /dev, name and target, as docker makes them; `core` where the kernel has it."""

KINDS = {"c": stat.S_IFCHR, "b": stat.S_IFBLK}
_PTMX = os.makedev(5, 2)
_TIOCSPTLCK = 0x40045431
_TIOCGPTPEER = 0x5441


def add(root_fd: int, devices: Iterable[Device]) -> None:
    """Make the nodes. A node that exists already must be that very device, else SystemFailure. Raises OSError."""
    parent_fd, parent = -1, ""
    try:
        for device in devices:
            directory, _, name = device.path.rpartition("/")
            if directory != parent or parent_fd < 0:
                if parent_fd >= 0:
                    os.close(parent_fd)
                parent_fd, parent = make_directories(root_fd, directory), directory
            _add_one(parent_fd, name, device)
    finally:
        if parent_fd >= 0:
            os.close(parent_fd)


def _add_one(parent_fd: int, name: str, device: Device) -> None:
    kind, number = KINDS[device.kind], os.makedev(device.major, device.minor)
    if not userns.is_hosts():
        _show_hosts(parent_fd, name, device)
        return
    try:
        os.mknod(name, kind | device.mode, number, dir_fd=parent_fd)
    except FileExistsError:
        found = os.stat(name, dir_fd=parent_fd, follow_symlinks=False)
        if stat.S_IFMT(found.st_mode) != kind or found.st_rdev != number:
            raise SystemFailure(f"{device.path} in the container exists and is not the requested device") from None
        return
    if device.uid or device.gid:
        os.chown(name, device.uid, device.gid, dir_fd=parent_fd, follow_symlinks=False)


def _show_hosts(parent_fd: int, name: str, device: Device) -> None:
    """Bind the host's own node in the place of one that may not be made. Raises SystemFailure, OSError."""
    source = os.open(device.source or device.path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(source)
        if stat.S_IFMT(found.st_mode) != KINDS[device.kind] or found.st_rdev != os.makedev(device.major, device.minor):
            raise SystemFailure(
                f"{device.source or device.path} is not the device {device.major}:{device.minor} any more"
            )
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=parent_fd))
        except FileExistsError:
            raise SystemFailure(f"{device.path} in the container exists and is not the requested device") from None
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent_fd)
        try:
            attach(source, place)
        finally:
            os.close(place)
    finally:
        os.close(source)


def add_links(root_fd: int) -> None:
    """Make the links of `LINKS` in /dev; a name that the image has already is left as it is."""
    place = make_directories(root_fd, "/dev")
    try:
        for name, target in LINKS:
            try:
                os.symlink(target, name, dir_fd=place)
            except FileExistsError:  # an image with a /dev of its own, when /dev is no fresh tmpfs
                continue
    finally:
        os.close(place)


def open_terminal(root_fd: int, rows: int, columns: int, *, console: bool = True) -> tuple[int, int]:
    """Open a new pty of the container's own devpts: (master, slave), close-on-exec; the slave is bound on /dev/console.

    rows, columns: its size; 0 leaves the kernel's; console: False leaves /dev/console alone, as it is process 1's.
        Raises OSError, SystemFailure when something else is in the place of ptmx.
    """
    flags = os.O_RDWR | os.O_NOCTTY
    # Checked before it is opened: a client's own /dev may have any device there, and opening a device can have effects.
    found = open_beneath(root_fd, "/dev/pts/ptmx", os.O_PATH)
    if os.fstat(found).st_rdev != _PTMX:
        raise SystemFailure("/dev/pts/ptmx in the container is not the ptmx device")
    if console:
        master = os.open(f"/proc/self/fd/{found}", flags | os.O_CLOEXEC)
    else:  # an exec's joiner cannot rely on the container's /proc
        master = open_beneath(root_fd, "/dev/pts/ptmx", flags)
        if not os.path.samestat(os.fstat(master), os.fstat(found)):
            raise SystemFailure("/dev/pts/ptmx in the container was replaced while it was opened")
    os.close(found)
    fcntl.ioctl(master, _TIOCSPTLCK, b"\0\0\0\0")
    # By descriptor (Linux 4.13), not by a name that the image could have put there.
    slave = fcntl.ioctl(master, _TIOCGPTPEER, flags | os.O_CLOEXEC)
    if rows or columns:
        termios.tcsetwinsize(slave, (rows, columns))
    if console:
        place = make_file(root_fd, "/dev/console")
        # It may be a link, in a client's own /dev (CVE-2025-52565).
        check_outside_proc(root_fd, place, "pty", "/dev/console")
        attach(slave, place)
        os.close(place)
    return master, slave


def control(slave: int) -> None:
    """Make the pty this session's controlling terminal; the caller leads a session without one (tty_ioctl(4))."""
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

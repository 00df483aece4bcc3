"""Gives SELinux labels to a container's processes, keyring, mounts and files, on hosts that have SELinux.

`change_on_exec` runs in a process that is to become a container's, before it gives up its privileges; `relabel` runs in
the daemon. A label is `user:role:type:level`, such as `system_u:object_r:container_file_t:s0:c1,c2` (selinux(8)). The
level may have commas, so an option of a mount has the label in quotes.
"""

import contextlib
import errno
import os
import stat
from collections.abc import Iterable

from engine.errors import SystemFailure
from engine.kernel import reasons, syscalls
from engine.kernel.beneath import open_beneath
from engine.sandbox import lsm
from engine.sandbox.spec import Mount

_ATTRIBUTE = "security.selinux"
_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Of these file systems a mount gets its label by an option. A /proc or /sys has the labels of the policy.
LABELLED = frozenset({"tmpfs", "devpts"})


def change_on_exec(label: str, *, outside: bool = False) -> None:
    """Make the next execve run with this label, in a session whose keyring has it too. Raises SystemFailure.

    outside: as for `lsm.write`
    """
    try:
        if lsm.write(("keycreate",), label, outside=outside):
            with contextlib.suppress(OSError):  # the keyring that it has stays, as where the kernel has no keyrings
                syscalls.join_session_keyring()
        written = lsm.write(("exec",), label, outside=outside)
    except OSError as error:
        raise SystemFailure(f"SELinux refuses the label {label} of a process: {reasons.of(error)}") from error
    if not written:
        raise SystemFailure(f"a process cannot have the label {label}: this kernel has no SELinux")


def mount_options(options: str, label: str) -> str:
    """The options of a mount whose files all have this label; the same options where there is no label."""
    if not label:
        return options
    return f'{options},context="{label}"' if options else f'context="{label}"'


def set_label(fd: int, label: str) -> None:
    """Label the file, of any type, behind a descriptor (also an O_PATH one). Raises OSError."""
    data = label.encode() + b"\0"
    place = f"/proc/self/fd/{fd}"  # leads to the file itself, also where that is a symbolic link
    with contextlib.suppress(OSError):
        if os.getxattr(place, _ATTRIBUTE) == data:
            return
    os.setxattr(place, _ATTRIBUTE, data)


def label_queues(root_fd: int, made: Iterable[Mount], label: str) -> None:
    """Label the mounts of message queues, which take no option for it, beneath a container's root. Raises OSError."""
    for mount in made:
        if mount.kind == "mqueue":
            top = open_beneath(root_fd, mount.target, os.O_PATH | os.O_CLOEXEC)
            try:
                set_label(top, label)
            finally:
                os.close(top)


def relabel(path: str, label: str) -> None:
    """Label a file, or a directory with all that is in it; no symbolic link is followed, on the way to it or in it.

    Where the file system has no labels nothing is done. Raises OSError, ELOOP for a link.
    """
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        fd = open_beneath(root, path, os.O_PATH | os.O_CLOEXEC, no_symlinks=True)
    finally:
        os.close(root)
    try:
        _relabel(fd, label)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
    finally:
        os.close(fd)


def _relabel(top: int, label: str) -> None:
    set_label(top, label)
    if not stat.S_ISDIR(os.fstat(top).st_mode):
        return
    for directory, names, files, within in os.fwalk(".", dir_fd=top):
        del directory
        for name in (*names, *files):
            try:
                fd = os.open(name, _PLACE, dir_fd=within)
            except FileNotFoundError:  # removed meanwhile
                continue
            try:
                set_label(fd, label)
            finally:
                os.close(fd)

"""Probes what keeps a container apart: root's rights, the kernel's system calls, namespaces, overlay, seccomp, LSMs.

Each probe runs in a child of its own (see `trial`), and tries the very thing that a container's start does.
"""

import errno
import os
import platform
import shutil
import sys
import tempfile

from engine.check.row import MISSING, OK, UNUSED, Check, Found
from engine.daemon.containers.security import confinement, labels
from engine.daemon.images.layers import storage
from engine.kernel import modprobe, syscalls, userns
from engine.sandbox import capabilities, seccomp
from engine.sandbox.namespaces import NAMESPACES
from engine.settings import whose
from engine.settings.every import Settings

_OLDEST_PYTHON = (3, 11)
_MODULES = ("ctypes", "sqlite3", "zlib", "ssl", "fcntl")
_USUAL_FILES = ("/proc/self/exe", "/proc/sys", "/sys/kernel", "/dev/null", "/dev/urandom")


def existing(path: str) -> str:
    """The directory itself, or the nearest one above that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def words(path: str) -> str:
    """The text of a small file; empty where there is none, or of a process that has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return ""


def _root(_: Settings) -> Found:
    owner = whose.owner(os.environ, os.geteuid())
    if owner and not os.geteuid() and not userns.is_hosts():
        return Found(OK, f"user {owner}, who is root in a user namespace, where the other rows looked")
    if os.geteuid():
        return Found(MISSING, f"this is user {owner}; the other rows show what that user may do")
    whole = (1 << capabilities.last_known() + 1) - 1
    lacking = capabilities.names(whole & ~syscalls.capget()[0])
    if lacking:
        return Found(OK, f"root, without {', '.join(lacking)}: no container can have these")
    return Found(OK, "root, with all capabilities")


def _python(_: Settings) -> Found:
    lacking = []
    for name in _MODULES:
        try:
            __import__(name)
        except ImportError:
            lacking.append(name)
    if not hasattr(os, "setxattr"):
        lacking.append("os.setxattr (with musl it has it from 3.11.3 on)")
    text = f"Python {platform.python_version()}, {sys.executable}"
    if sys.version_info < _OLDEST_PYTHON:
        return Found(MISSING, text)
    return Found(MISSING, f"{text}, without {', '.join(lacking)}") if lacking else Found(OK, text)


def _kernel(_: Settings) -> Found:
    system = os.uname()
    text = f"{system.sysname} {system.release} on {system.machine}"
    if syscalls.machine() not in syscalls.NUMBERS:
        return Found(MISSING, f"{text}: the engine does not know the numbers of its system calls")
    os.close(os.pidfd_open(os.getpid()))
    old = []
    for name, call in _CALLS.items():
        try:
            call()
        except OSError as error:
            if error.errno == errno.ENOSYS:
                old.append(name)
    return Found(OK, f"{text}, without {' and '.join(old)}: the engine does their work by older calls" if old else text)


def _openat2() -> None:
    os.close(syscalls.openat2(os.open("/", os.O_PATH), ".", os.O_PATH, 0, 0))


def _mount_setattr() -> None:
    syscalls.mount_setattr(-1, 0, 0)


_CALLS = {"openat2 (Linux 5.6)": _openat2, "mount_setattr (Linux 5.12)": _mount_setattr}


def _usual_files(_: Settings) -> Found:
    lacking = [path for path in _USUAL_FILES if not os.path.exists(path)]
    if lacking:
        return Found(MISSING, f"{', '.join(lacking)}: not there")
    return Found(OK, ", ".join(_USUAL_FILES))


def _namespaces(_: Settings) -> Found:
    lacking = []
    names = [name for name in NAMESPACES if name != "user"]  # in which this child would have rights that it has not
    for name in names:
        try:
            syscalls.unshare(NAMESPACES[name].flag)
        except OSError as error:
            lacking.append(f"{name} ({error.strerror})")
    return Found(MISSING, f"cannot make: {', '.join(lacking)}") if lacking else Found(OK, ", ".join(names))


def _user_namespaces(_: Settings) -> Found:
    try:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
    except OSError as error:
        return Found(UNUSED, f"{error.strerror}; the engine's containers have none")
    return Found(OK, "there; the engine's containers have none")


def _overlay(settings: Settings) -> Found:
    chosen = words(os.path.join(settings.data_root, "storage"))
    if chosen == storage.COPY:
        return Found(MISSING, f"the daemon that made {settings.data_root} found none there, and stays with copies")
    modprobe.stand_in(modprobe.OVERLAY)
    place = existing(settings.data_root)
    probe = tempfile.mkdtemp(prefix=".engine-check-", dir=place)
    try:
        for part in ("lower", "upper", "work"):
            os.mkdir(os.path.join(probe, part), 0o700)
        storage.try_overlay(probe)
    except OSError as error:
        return Found(MISSING, f"an overlay of directories in {place} does not work: {error.strerror}")
    finally:
        shutil.rmtree(probe)
    return Found(OK, f"an overlay of directories in {place} works")


def _seccomp(_: Settings) -> Found:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.seccomp_load(seccomp.default_profile(capabilities.DEFAULT))
    return Found(OK, "the default profile can be loaded")


def _apparmor(_: Settings) -> Found:
    if not confinement.kernel_has():
        return Found(UNUSED, "the kernel has no AppArmor, or it is switched off")
    if not confinement.confines():
        return Found(MISSING, "the kernel has AppArmor, but this host has no apparmor_parser")
    return Found(OK, f"the profile {confinement.PROFILE}, by {confinement.parser() or 'what is loaded'}")


def _selinux(settings: Settings) -> Found:
    if not labels.kernel_has():
        return Found(UNUSED, "the kernel has no SELinux, or it is switched off")
    mode = "enforcing" if words(labels.ENFORCE) == "1" else "permissive"
    if not settings.selinux_enabled:
        return Found(MISSING, f"{mode}, and the daemon is not to give labels")
    return Found(OK, f"{mode}; containers run as {labels.host_labels()[0]}")


CHECKS = (
    Check("root", _root, "The daemon refuses to start.", "sudo python3 -m engine check", essential=True),
    Check(
        "Python",
        _python,
        "The daemon ends while it starts.",
        "Install Python 3.11 or later with its whole standard library (Debian: apt-get install python3)",
        essential=True,
    ),
    Check("kernel", _kernel, "No container starts.", "Boot Linux 5.12 or later (6.1 was tested)", essential=True),
    Check(
        "/proc, /sys and /dev",
        _usual_files,
        "The daemon refuses to start, or no container starts.",
        "mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs devtmpfs /dev",
        essential=True,
    ),
    Check(
        "namespaces",
        _namespaces,
        "No container starts.",
        "Boot a kernel with CONFIG_NAMESPACES; in a container, run the engine with --privileged",
        essential=True,
    ),
    Check("user namespaces", _user_namespaces, "Nothing changes.", ""),
    Check(
        "overlay",
        _overlay,
        "Each container gets a copy of its image, which takes time and room.",
        "modprobe overlay; or choose a --data-root on ext4, xfs or btrfs",
    ),
    Check(
        "seccomp",
        _seccomp,
        "Only containers with --security-opt seccomp=unconfined start.",
        "Boot a kernel with CONFIG_SECCOMP_FILTER",
        essential=True,
    ),
    Check(
        "AppArmor",
        _apparmor,
        "Containers run without an AppArmor profile of their own.",
        "apt-get install apparmor, then restart the daemon",
    ),
    Check("SELinux", _selinux, "Containers run without labels.", "start the daemon with --selinux-enabled"),
)

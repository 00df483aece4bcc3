"""System calls that the standard library lacks (mounts, namespaces, seccomp, bpf, openat2, ...), as thin functions that
raise OSError.

Used by every process of the engine. One table holds the numbers, so that the wrappers that glibc and musl lack are not
needed. `ctypes` calls libc's `syscall(2)` with declared argument types. Each call is bound when the module is imported,
because after a fork every new object copies a page. The module keeps no state and decides nothing.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable

_COMMON = {
    "clone3": 435,
    "close_range": 436,
    "fsconfig": 431,
    "fsmount": 432,
    "fsopen": 430,
    "mount_setattr": 442,
    "move_mount": 429,
    "open_tree": 428,
    "openat2": 437,
}
_GENERIC = {
    "bpf": 280,
    "capget": 90,
    "capset": 91,
    "finit_module": 273,
    "keyctl": 219,
    "mount": 40,
    "pivot_root": 41,
    "prctl": 167,
    "rt_sigaction": 134,
    "seccomp": 277,
    "setdomainname": 162,
    "setfsgid": 152,
    "setfsuid": 151,
    "setns": 268,
    "signalfd4": 74,
    "umount2": 39,
    "unshare": 97,
}
NUMBERS: dict[str, dict[str, int]] = {
    "x86_64": _COMMON
    | {
        "bpf": 321,
        "capget": 125,
        "capset": 126,
        "finit_module": 313,
        "keyctl": 250,
        "mount": 165,
        "pivot_root": 155,
        "prctl": 157,
        "rt_sigaction": 13,
        "seccomp": 317,
        "setdomainname": 171,
        "setfsgid": 123,
        "setfsuid": 122,
        "setns": 308,
        "signalfd4": 289,
        "umount2": 166,
        "unshare": 272,
    },
    "aarch64": _COMMON | _GENERIC,
    "riscv64": _COMMON | _GENERIC,
    "armv7l": _COMMON
    | {
        "bpf": 386,
        "capget": 184,
        "capset": 185,
        "finit_module": 379,
        "keyctl": 311,
        "mount": 21,
        "pivot_root": 218,
        "prctl": 172,
        "rt_sigaction": 174,
        "seccomp": 383,
        "setdomainname": 121,
        "setfsgid": 216,
        "setfsuid": 215,
        "setns": 375,
        "signalfd4": 355,
        "umount2": 52,
        "unshare": 337,
    },
}
"""System call numbers by machine, from the kernel's arch/*/syscall*.tbl and asm-generic/unistd.h."""

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NODEV = 0x4
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000
MNT_DETACH = 0x2

AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
OPEN_TREE_CLONE = 0x1
MOVE_MOUNT_F_EMPTY_PATH = 0x04
MOVE_MOUNT_T_EMPTY_PATH = 0x40
MODULE_INIT_COMPRESSED_FILE = 4
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_IDMAP = 0x100000
FSCONFIG_SET_FLAG = 0
FSCONFIG_SET_STRING = 1
FSCONFIG_CMD_CREATE = 6

CLOSE_RANGE_CLOEXEC = 0x4

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
RESOLVE_IN_ROOT = 0x10

PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

SECCOMP_SET_MODE_FILTER = 1
KEYCTL_JOIN_SESSION_KEYRING = 1
CAPABILITY_VERSION_3 = 0x20080522


def machine() -> str:
    """This process's machine as a key of `NUMBERS`; for an unknown machine (`i686`, ...) the kernel's name."""
    name = os.uname().machine
    if name in ("aarch64", "armv8l") and ctypes.sizeof(ctypes.c_void_p) == 4:
        return "armv7l"
    return "armv7l" if name.startswith("armv7") else name


_ORDER = sys.byteorder
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = NUMBERS.get(machine(), {})

_LONG = ctypes.c_long
_INT = ctypes.c_int
_UINT = ctypes.c_uint
_TEXT = ctypes.c_char_p
_POINTER = ctypes.c_void_p


def _bind(name: str, *types: type) -> Callable[..., int]:
    """The system call as a function of exactly these argument types; one that raises ENOSYS where its number is
    unknown.
    """
    if name not in _numbers:

        def missing(*_arguments: object) -> int:
            raise OSError(38, f"no number is known for the system call {name} on {machine()}")

        return missing
    number = _numbers[name]
    call = ctypes.CFUNCTYPE(_LONG, _LONG, *types, use_errno=True)(("syscall", _libc))

    def invoke(*arguments: object) -> int:
        result: int = call(number, *arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return result

    return invoke


def _text(value: str | bytes | None) -> bytes | None:
    """A path or option text as the kernel takes it: bytes pass, None is NULL."""
    return value if value is None or isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")


_bpf = _bind("bpf", _INT, _TEXT, _UINT)
_capget = _bind("capget", _TEXT, _TEXT)
_capset = _bind("capset", _TEXT, _TEXT)
_close_range = _bind("close_range", _UINT, _UINT, _UINT)
_finit_module = _bind("finit_module", _INT, _TEXT, _INT)
_fsconfig = _bind("fsconfig", _INT, _UINT, _TEXT, _TEXT, _INT)
_fsmount = _bind("fsmount", _INT, _UINT, _UINT)
_fsopen = _bind("fsopen", _TEXT, _UINT)
_keyctl = _bind("keyctl", _INT, _TEXT)
_mount = _bind("mount", _TEXT, _TEXT, _TEXT, ctypes.c_ulong, _TEXT)
_mount_setattr = _bind("mount_setattr", _INT, _TEXT, _UINT, _TEXT, ctypes.c_size_t)
_move_mount = _bind("move_mount", _INT, _TEXT, _INT, _TEXT, _UINT)
_open_tree = _bind("open_tree", _INT, _TEXT, _UINT)
_openat2 = _bind("openat2", _INT, _TEXT, _TEXT, ctypes.c_size_t)
_pivot_root = _bind("pivot_root", _TEXT, _TEXT)
_prctl = _bind("prctl", _INT, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_rt_sigaction = _bind("rt_sigaction", _INT, _TEXT, _POINTER, ctypes.c_size_t)
_seccomp = _bind("seccomp", _UINT, _UINT, _POINTER)
_setdomainname = _bind("setdomainname", _TEXT, ctypes.c_size_t)
_setfsgid = _bind("setfsgid", _UINT)
_setfsuid = _bind("setfsuid", _UINT)
_signalfd4 = _bind("signalfd4", _INT, _TEXT, ctypes.c_size_t, _INT)
_umount2 = _bind("umount2", _TEXT, _INT)

# The standard library has these two since Python 3.12.
unshare: Callable[[int], object] = getattr(os, "unshare", None) or _bind("unshare", _INT)
setns: Callable[[int, int], object] = getattr(os, "setns", None) or _bind("setns", _INT, _INT)


class _Filter(ctypes.Structure):
    """struct sock_fprog (linux/filter.h)."""

    _fields_ = [("length", ctypes.c_ushort), ("program", _TEXT)]


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2); `flags` are MS_* bits."""
    _mount(_text(source), _text(target), _text(kind), flags, _text(data))


def umount2(target: str, flags: int) -> None:
    """umount2(2)."""
    _umount2(_text(target), flags)


def pivot_root(new: str, old: str) -> None:
    """pivot_root(2)."""
    _pivot_root(_text(new), _text(old))


def setdomainname(name: str) -> None:
    """setdomainname(2): the NIS domain name of this UTS namespace."""
    data = _text(name) or b""
    _setdomainname(data, len(data))


def prctl(option: int, argument: int = 0, argument3: int = 0) -> int:
    """prctl(2) with integer arguments; the others are 0, as newer options require."""
    return _prctl(option, argument, argument3, 0, 0)


def set_fs_owner(uid: int, gid: int) -> None:
    """setfsuid(2) and setfsgid(2): the owner of all files that this thread makes. The kernel reports no failure.

    A uid other than 0 takes the capabilities over files out of the effective set.
    """
    _setfsgid(gid)
    _setfsuid(uid)


def default_action(number: int) -> None:
    """rt_sigaction(2) to SIG_DFL, also for the signals that the C library reserves for itself (nptl(7))."""
    # the whole struct sigaction of any machine, and the size of the kernel's signal mask
    _rt_sigaction(number, bytes(32), None, 8)


def signalfd(numbers: Iterable[int]) -> int:
    """signalfd(2): a descriptor from which these signals are read, one struct signalfd_siginfo (128 bytes) for each.

    The caller has blocked them. The descriptor is close-on-exec.
    """
    mask = sum(1 << number - 1 for number in set(numbers))
    return _signalfd4(-1, mask.to_bytes(8, _ORDER), 8, os.O_CLOEXEC)


def capget() -> tuple[int, int, int]:
    """This thread's capabilities as bit masks: (effective, permitted, inheritable)."""
    data = ctypes.create_string_buffer(24)
    _capget(CAPABILITY_VERSION_3.to_bytes(4, _ORDER) + bytes(4), data)
    words = [int.from_bytes(data.raw[at : at + 4], _ORDER) for at in range(0, 24, 4)]
    return words[0] | words[3] << 32, words[1] | words[4] << 32, words[2] | words[5] << 32


def capset(effective: int, permitted: int, inheritable: int) -> None:
    """capset(2) for this thread, each a bit mask of capabilities."""
    words = [value >> shift & 0xFFFFFFFF for shift in (0, 32) for value in (effective, permitted, inheritable)]
    _capset(CAPABILITY_VERSION_3.to_bytes(4, _ORDER) + bytes(4), b"".join(word.to_bytes(4, _ORDER) for word in words))


def seccomp_load(program: bytes, flags: int = 0) -> None:
    """Install a filter, an array of struct sock_filter, for this thread and all its future children (seccomp(2))."""
    _seccomp(SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(_Filter(len(program) // 8, program)))


def bpf(command: int, attributes: bytes) -> int:
    """bpf(2); `attributes` is the command's part of union bpf_attr; memory that it points to must outlive the call."""
    return _bpf(command, attributes, len(attributes))


def close_range(first: int, last: int, flags: int) -> None:
    """close_range(2): close, or with CLOSE_RANGE_CLOEXEC (Linux 5.11) mark, the descriptors from first to last."""
    _close_range(first, last, flags)


def finit_module(fd: int, flags: int) -> None:
    """finit_module(2): load the kernel module in this file, without parameters. flags: MODULE_INIT_*"""
    _finit_module(fd, b"", flags)


def openat2(dir_fd: int, path: str, flags: int, mode: int, resolve: int) -> int:
    """openat2(2) (Linux 5.6); `resolve` are RESOLVE_* bits. The new descriptor is close-on-exec."""
    how = b"".join(value.to_bytes(8, _ORDER) for value in (flags | os.O_CLOEXEC, mode, resolve))
    return _openat2(dir_fd, _text(path), how, len(how))


def open_tree(dir_fd: int, path: str, flags: int) -> int:
    """open_tree(2) (Linux 5.2): a close-on-exec descriptor of a mount; with OPEN_TREE_CLONE, of a
    detached copy of it.
    """
    return _open_tree(dir_fd, _text(path), flags | os.O_CLOEXEC)


def move_mount(tree_fd: int, target_fd: int) -> None:
    """move_mount(2) (Linux 5.2): attach the mount behind one descriptor at the path behind another."""
    _move_mount(tree_fd, b"", target_fd, b"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH)


def mount_setattr(fd: int, flags: int, attributes: int, clear: int = 0, propagation: int = 0, users: int = 0) -> None:
    """mount_setattr(2) (Linux 5.12) on the mount behind `fd`; `flags` may hold AT_RECURSIVE.

    users: a descriptor of the user namespace for MOUNT_ATTR_IDMAP
    """
    values = b"".join(value.to_bytes(8, _ORDER) for value in (attributes, clear, propagation, users))
    _mount_setattr(fd, b"", flags | AT_EMPTY_PATH, values, len(values))


def fsopen(kind: str) -> int:
    """fsopen(2) (Linux 5.2): a close-on-exec descriptor for the configuration of a new file system."""
    return _fsopen(_text(kind), 1)


def fsconfig(fd: int, command: int, key: str | None = None, value: str | None = None) -> None:
    """fsconfig(2) with text values."""
    _fsconfig(fd, command, _text(key), _text(value), 0)


def fsmount(fd: int, attributes: int) -> int:
    """fsmount(2): the configured file system as a detached mount, a close-on-exec descriptor."""
    return _fsmount(fd, 1, attributes)


def join_session_keyring() -> None:
    """Leave the session keyring inherited from the engine for a new anonymous one (keyctl(2))."""
    _keyctl(KEYCTL_JOIN_SESSION_KEYRING, None)


def process_start(pid: int) -> int:
    """When a process started, in clock ticks since boot: field 22 of /proc/PID/stat (proc(5)).

    The pid and this time together name a process uniquely. Raises FileNotFoundError or ProcessLookupError when it is
    gone.
    """
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        text = file.read(4096)
    # The command name, in parentheses, may hold spaces and parentheses of its own.
    return int(text[text.rindex(b")") + 2 :].split()[19])


def boot_id() -> str:
    """The id of this boot of the host (random(4)): state that was only in memory is lost once it differs."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()

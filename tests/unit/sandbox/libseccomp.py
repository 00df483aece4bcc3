"""Docker's profile compiled by libseccomp through ctypes: the oracle for the engine's own compiler. For tests only."""

import ctypes
import errno
import os

TOKENS = {
    "SCMP_ARCH_X86_64": 0xC000003E,
    "SCMP_ARCH_X86": 0x40000003,
    "SCMP_ARCH_X32": 0x4000003E,
    "SCMP_ARCH_ARM": 0x40000028,
    "SCMP_ARCH_AARCH64": 0xC00000B7,
    "SCMP_ARCH_RISCV64": 0xC00000F3,
}
_OPERATORS = {name: number for number, name in enumerate(("NE", "LT", "LE", "EQ", "GE", "GT", "MASKED_EQ"), 1)}
_ACTIONS = {"SCMP_ACT_ALLOW": 0x7FFF0000, "SCMP_ACT_ERRNO": 0x00050000, "SCMP_ACT_LOG": 0x7FFC0000}


class _Comparison(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def load() -> ctypes.CDLL | None:
    """The library; None where it is not installed."""
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    for name, *types in (
        ("seccomp_release",),
        ("seccomp_arch_add", ctypes.c_uint32),
        ("seccomp_arch_remove", ctypes.c_uint32),
        ("seccomp_export_bpf", ctypes.c_int),
        ("seccomp_rule_add_array", ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p),
    ):
        getattr(library, name).argtypes = [ctypes.c_void_p, *types]
    library.seccomp_syscall_resolve_name.argtypes = [ctypes.c_char_p]
    library.seccomp_syscall_resolve_name_arch.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    return library


def compile_rules(library: ctypes.CDLL, default: int, architectures: list[str], rules: list[dict]) -> bytes:
    """The program that libseccomp makes of rules that are already chosen for the machine and the capabilities."""
    context = library.seccomp_init(default)
    assert context
    try:
        for name in architectures:
            assert library.seccomp_arch_add(context, TOKENS[name]) in (0, -errno.EEXIST)
        if "SCMP_ARCH_X86_64" not in architectures:
            assert library.seccomp_arch_remove(context, TOKENS["SCMP_ARCH_X86_64"]) == 0
        for rule in rules:
            _add(library, context, rule)
        fd = os.memfd_create("bpf")
        try:
            assert library.seccomp_export_bpf(context, fd) == 0
            return os.pread(fd, 1 << 20, 0)
        finally:
            os.close(fd)
    finally:
        library.seccomp_release(context)


def _add(library: ctypes.CDLL, context: int, rule: dict) -> None:
    action = _ACTIONS[rule["action"]] | (rule.get("errnoRet") or 0)
    conditions = [
        _Comparison(row["index"], _OPERATORS[row["op"].removeprefix("SCMP_CMP_")], row["value"], row.get("valueTwo", 0))
        for row in rule.get("args") or ()
    ]
    array = (_Comparison * len(conditions))(*conditions)
    for name in rule["names"]:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number != -1:
            result = library.seccomp_rule_add_array(context, action, number, len(conditions), array)
            assert result == 0, (name, result)

"""Compiles a seccomp profile (docker's JSON format) into the BPF program that the kernel runs.

Pure except for reading the two data files beside it: docker's default profile, and the system call numbers by name
(from libseccomp and the kernel's tables). Runs in the daemon when a container is created; init only loads the result.
The verdicts are those of libseccomp (a test compares them), with two exceptions. If a profile denies by default, a call
that is newer than every call it names gets ENOSYS, as with runc, so that C libraries fall back to the older call. And
if the kernel takes an argument for an int, the upper half of its register is ignored (see `_INTS`).
"""

import errno
import functools
import json
import os
from collections.abc import Iterable

from engine import origin
from engine.annotating import Any
from engine.dataclass import dataclass, field
from engine.errors import Invalid
from engine.kernel.syscalls import machine as running_machine
from engine.late import TYPE_CHECKING, late
from engine.sandbox.assembler import AT_LEAST, EQUAL, GREATER, Program
from engine.sandbox.seccomp_rules import Condition, Profile, Rule, read

if TYPE_CHECKING:  # loaded by the first container with a profile of a client's
    from engine.sandbox import seccomp_profile
else:
    seccomp_profile = late("engine.sandbox.seccomp_profile")

_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_X32_BIT = 0x40000000
_ORDINARY = 0x10000
_LOW = 0xFFFFFFFF
_DATA = 0xFFFF


@dataclass(frozen=True, slots=True)
class _Architecture:
    """column: its numbers in seccomp_syscalls.json; token: AUDIT_ARCH_* in struct seccomp_data."""

    column: str
    token: int


_ARCHITECTURES = {
    "SCMP_ARCH_X86_64": _Architecture("x86_64", 0xC000003E),
    "SCMP_ARCH_X86": _Architecture("x86", 0x40000003),
    "SCMP_ARCH_X32": _Architecture("x32", 0xC000003E),
    "SCMP_ARCH_ARM": _Architecture("arm", 0x40000028),
    "SCMP_ARCH_AARCH64": _Architecture("aarch64", 0xC00000B7),
    "SCMP_ARCH_RISCV64": _Architecture("riscv64", 0xC00000F3),
}
_MACHINES = {
    "x86_64": ("SCMP_ARCH_X86_64", "amd64"),
    "aarch64": ("SCMP_ARCH_AARCH64", "arm64"),
    "armv7l": ("SCMP_ARCH_ARM", "arm"),
    "riscv64": ("SCMP_ARCH_RISCV64", "riscv64"),
}
"""machine -> its architecture, and its name in a rule's `arches`."""

_KILL_THREAD, _KILL_PROCESS, _TRAP, _ERRNO = 0, 0x80000000, 0x00030000, 0x00050000
_ACTIONS = {
    "SCMP_ACT_KILL": _KILL_THREAD,
    "SCMP_ACT_KILL_THREAD": _KILL_THREAD,
    "SCMP_ACT_KILL_PROCESS": _KILL_PROCESS,
    "SCMP_ACT_TRAP": _TRAP,
    "SCMP_ACT_ERRNO": _ERRNO,
    "SCMP_ACT_TRACE": 0x7FF00000,
    "SCMP_ACT_LOG": 0x7FFC0000,
    "SCMP_ACT_ALLOW": 0x7FFF0000,
}
_WITH_DATA = frozenset({"SCMP_ACT_ERRNO", "SCMP_ACT_TRACE"})
_DENYING = frozenset({_KILL_THREAD, _KILL_PROCESS, _TRAP, _ERRNO})

# Operator -> comparison of the low and of the high word, and whether yes and no change places.
_OPERATORS = {
    "SCMP_CMP_EQ": (EQUAL, False),
    "SCMP_CMP_NE": (EQUAL, True),
    "SCMP_CMP_MASKED_EQ": (EQUAL, False),
    "SCMP_CMP_GE": (AT_LEAST, False),
    "SCMP_CMP_LT": (AT_LEAST, True),
    "SCMP_CMP_GT": (GREATER, False),
    "SCMP_CMP_LE": (GREATER, True),
}


# Call -> which of its arguments the kernel takes for an int or unsigned int: it never looks at the upper half of their
# registers. A filter that did would let 38 with a bit of the upper half set pass as a value "above 40", and the kernel
# would see AF_ALG (Flatpak's CVE-2019-10063, Podman's CVE-2026-123876). Only calls whose arguments profiles test are
# listed.
_INTS = {
    "bpf": (0, 2),
    "fcntl": (0, 1),
    "getsockopt": (0, 1, 2),
    "ioctl": (0, 1),
    "keyctl": (0,),
    "kill": (0, 1),
    "madvise": (2,),
    "personality": (0,),
    "prctl": (0,),
    "seccomp": (0, 1),
    "setns": (0, 1),
    "setsockopt": (0, 1, 2, 4),
    "socket": (0, 1, 2),
    "socketpair": (0, 1, 2),
}


@dataclass(slots=True)
class _Call:
    """What a profile says of one system call: conditional actions in order, and one for everything else.

    ints: which of its arguments are ints
    """

    ints: tuple[int, ...]
    conditional: list[tuple[tuple[Condition, ...], int]] = field(default_factory=list)
    otherwise: int | None = None


def default_profile(capabilities: Iterable[str]) -> bytes:
    """Docker's default profile for a container with these capabilities on this machine, compiled; cached."""
    return _default_profile(frozenset(capabilities))


def compile_text(text: str, capabilities: Iterable[str]) -> bytes:
    """A client's own profile, compiled; empty for a profile without content.

    The last few are cached. Raises Invalid.
    """
    return _compile_text(text, frozenset(capabilities))


@functools.lru_cache(maxsize=4)
def flags_of_text(text: str) -> int:
    """The SECCOMP_FILTER_FLAG_* bits that a client's own profile asks for. Raises Invalid."""
    return seccomp_profile.flags(text)


@functools.lru_cache(maxsize=4)
def _compile_text(text: str, capabilities: frozenset[str]) -> bytes:
    # Few containers have a profile of their own: the parser is loaded with the first.
    return compile_profile(read(text), capabilities) if seccomp_profile.parse(text) else b""


@functools.lru_cache(maxsize=8)
def _default_profile(capabilities: frozenset[str]) -> bytes:
    return compile_profile(read(_data("seccomp_default.json")), capabilities)


def described(profile: str, capabilities: Iterable[str]) -> dict[str, Any] | None:
    """A profile as the OCI runtime specification has it: the rules that apply here to a container with these
    capabilities.

    profile: `builtin`, `unconfined` or a profile's text; None for no filter
    """
    if profile == "unconfined":
        return None
    machine = running_machine()
    read_ = read(_data("seccomp_default.json") if profile == "builtin" else profile)
    held = frozenset(capabilities)
    rules = [rule for rule in read_.rules if _applies(rule, held, machine)]
    found: dict[str, Any] = {
        "defaultAction": read_.action,
        "architectures": _architectures(read_, machine),
        "syscalls": [_described_rule(rule) for rule in rules],
    }
    if read_.errno is not None:
        found["defaultErrnoRet"] = read_.errno
    return found


def _described_rule(rule: Rule) -> dict[str, Any]:
    found: dict[str, Any] = {"names": list(rule.names), "action": rule.action}
    if rule.errno is not None:
        found["errnoRet"] = rule.errno
    if rule.conditions:
        found["args"] = [
            {"index": each.index, "value": each.value, "valueTwo": each.second, "op": each.operator}
            for each in rule.conditions
        ]
    return found


def compile_profile(profile: Profile, capabilities: Iterable[str], machine: str | None = None) -> bytes:
    """An array of struct sock_filter for the profile.

    capabilities: the container's, for the rules that depend on them; machine: a key of `kernel.syscalls.NUMBERS`, None
        for this one. Raises Invalid for what the format does not know.
    """
    try:
        return _compiled(profile, frozenset(capabilities), machine or running_machine())
    except ValueError as error:
        raise Invalid(f"seccomp: {error}") from error


def _compiled(profile: Profile, capabilities: frozenset[str], machine: str) -> bytes:
    if machine not in _MACHINES:
        raise Invalid(f"seccomp: no system call numbers for the machine {machine!r}")
    table = json.loads(_data("seccomp_syscalls.json"))
    default = _action(profile.action, profile.errno)
    calls = _collect(profile, default, capabilities, machine)
    program = Program()
    sections: dict[int, int] = {}
    named = [_ARCHITECTURES[name] for name in _architectures(profile, machine)]
    # x32 comes before x86_64, which branches to it.
    for architecture in sorted(named, key=lambda one: one.column == "x86_64"):
        column = table["machines"].index(architecture.column)
        base = _X32_BIT if architecture.column == "x32" else 0
        numbers = {name: row[column] + base for name, row in table["numbers"].items() if row[column] is not None}
        tree = _tree(program, calls, numbers, default, base, _named_last(profile, numbers))
        if architecture.column == "x86_64":
            x32 = sections.get(architecture.token) or program.answer(_KILL_THREAD)
            tree = program.branch(AT_LEAST, _X32_BIT, x32, tree)
        sections[architecture.token] = tree
    label = program.answer(_KILL_THREAD)
    for token, tree in sections.items():
        section = program.load(_NUMBER, tree)
        other = program.go(label)
        label = program.branch(EQUAL, token, section, other)
    program.load(_ARCHITECTURE, label)
    return program.assemble()


def _data(name: str) -> bytes:
    return origin.data(f"sandbox/{name}")


def _action(name: str | None, errno_return: int | None) -> int:
    if name not in _ACTIONS:
        raise Invalid(f"seccomp: unknown action {name!r}")
    if name not in _WITH_DATA:
        return _ACTIONS[name]
    return _ACTIONS[name] | ((errno.EPERM if errno_return is None else errno_return) & _DATA)


def _architectures(profile: Profile, machine: str) -> list[str]:
    """The architectures that the filter answers for, the machine's own first."""
    native, _ = _MACHINES[machine]
    names = [native, *profile.architectures]
    for architecture, others in profile.families:
        if architecture == native:
            names += others
    return [name for name in dict.fromkeys(names) if name in _ARCHITECTURES]


def _collect(profile: Profile, default: int, capabilities: frozenset[str], machine: str) -> dict[str, _Call]:
    calls: dict[str, _Call] = {}
    for rule in profile.rules:
        action = _action(rule.action, rule.errno)
        if action == default or not _applies(rule, capabilities, machine):
            continue
        for name in rule.names:
            call = calls.setdefault(name, _Call(_INTS.get(name, ())))
            if not rule.conditions:
                call.otherwise = action if call.otherwise is None else call.otherwise
            else:
                call.conditional += [(alternative, action) for alternative in _alternatives(rule.conditions)]
    return calls


def _applies(rule: Rule, capabilities: frozenset[str], machine: str) -> bool:
    includes, excludes = rule.includes, rule.excludes
    arch = _MACHINES[machine][1]
    if arch in excludes.arches or capabilities.intersection(excludes.capabilities):
        return False
    if includes.arches and arch not in includes.arches:
        return False
    if includes.kernel and _kernel() < _version(includes.kernel):
        return False
    if excludes.kernel and _kernel() >= _version(excludes.kernel):
        return False
    return capabilities.issuperset(includes.capabilities)


def _kernel() -> tuple[int, int]:
    return _version(os.uname().release)


def _version(text: str) -> tuple[int, int]:
    major, _, rest = text.partition(".")
    minor = rest[: next((at for at, mark in enumerate(rest) if not mark.isdigit()), len(rest))]
    return int(major), int(minor or 0)


def _alternatives(conditions: tuple[Condition, ...]) -> list[tuple[Condition, ...]]:
    """All conditions together; but an argument named twice means "any of these", as in runc."""
    if len({condition.index for condition in conditions}) == len(conditions):
        return [conditions]
    return [(condition,) for condition in conditions]


def _named_last(profile: Profile, numbers: dict[str, int]) -> int:
    """The newest call that the profile's author knew.

    The few private calls of ARM, with far higher numbers, do not count.
    """
    named = (numbers[name] for rule in profile.rules for name in rule.names if name in numbers)
    return max((number for number in named if number & ~_X32_BIT < _ORDINARY), default=-1)


def _tree(
    program: Program, calls: dict[str, _Call], numbers: dict[str, int], default: int, base: int, last: int
) -> int:
    """The search over one architecture's numbers; returns the label that finds the verdict for the loaded number."""
    unknown = _ERRNO | errno.ENOSYS if default & ~_DATA in _DENYING and last >= 0 else default
    answers: dict[int, _Call] = {}
    for name, call in calls.items():
        if name in numbers:
            answers[numbers[name]] = call
    starts: list[tuple[int, int | _Call]] = [(base, default)]
    for number in sorted({*answers, *(at + 1 for at in answers), last + 1}):
        what = answers.get(number)
        if what is None:
            verdict: int | _Call = default if number <= last else unknown
        else:
            verdict = what if what.conditional or what.otherwise is None else what.otherwise
        if number == base:
            starts = []
        if not starts or starts[-1][1] != verdict:
            starts.append((number, verdict))
    return program.search([(number, _label(program, verdict, default)) for number, verdict in starts])


def _label(program: Program, verdict: int | _Call, default: int) -> int:
    if isinstance(verdict, int):
        return program.answer(verdict)
    label = program.answer(default if verdict.otherwise is None else verdict.otherwise)
    for conditions, action in reversed(verdict.conditional):
        yes, no = program.answer(action), label
        for condition in reversed(conditions):
            yes = _compare(program, condition, condition.index in verdict.ints, yes, no)
        label = yes
    return label


def _compare(program: Program, condition: Condition, is_int: bool, yes: int, no: int) -> int:
    """One comparison of an argument: of 64 bits with the high word first, or of an int's 32."""
    index, operator, value = condition.index, condition.operator, condition.value
    if operator not in _OPERATORS or not 0 <= index < 6:
        raise Invalid(f"seccomp: cannot compare with {operator!r} argument {index!r}")
    comparison, swapped = _OPERATORS[operator]
    if swapped:
        yes, no = no, yes
    mask = None
    if operator == "SCMP_CMP_MASKED_EQ":
        mask, value = value, condition.second
    low, high = _ARGUMENTS + 8 * index, _ARGUMENTS + 8 * index + 4
    low_mask, high_mask = (None, None) if mask is None else (mask & _LOW, mask >> 32)
    label = program.load(low, program.branch(comparison, value & _LOW, yes, no), low_mask)
    if value >> 32 == 0 and (high_mask == 0 or is_int):
        return label
    label = program.branch(EQUAL, value >> 32, label, no)
    if comparison != EQUAL:
        # A greater high word decides, whatever the low word is.
        label = program.branch(GREATER, value >> 32, yes, label)
    return program.load(high, label, high_mask)

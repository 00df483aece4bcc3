"""The seccomp compiler against libseccomp, verdict by verdict, and on its own."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.errors import Invalid
from engine.sandbox import capabilities, seccomp, seccomp_rules
from tests.unit.sandbox import bpf_machine, libseccomp

DATA = Path(seccomp.__file__).parent
PROFILE = json.loads((DATA / "seccomp_default.json").read_bytes())
TABLE = json.loads((DATA / "seccomp_syscalls.json").read_bytes())
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x50001, 0x50026, 0
X32_BIT = 0x40000000
# machine -> (name in `arches`, [(libseccomp's architecture, column, token in seccomp_data, base of the numbers)])
MACHINES = {
    "x86_64": (
        "amd64",
        [
            ("SCMP_ARCH_X86_64", "x86_64", 0xC000003E, 0),
            ("SCMP_ARCH_X86", "x86", 0x40000003, 0),
            ("SCMP_ARCH_X32", "x32", 0xC000003E, X32_BIT),
        ],
    ),
    "aarch64": ("arm64", [("SCMP_ARCH_AARCH64", "aarch64", 0xC00000B7, 0), ("SCMP_ARCH_ARM", "arm", 0x40000028, 0)]),
    "riscv64": ("riscv64", [("SCMP_ARCH_RISCV64", "riscv64", 0xC00000F3, 0)]),
    "armv7l": ("arm", [("SCMP_ARCH_ARM", "arm", 0x40000028, 0)]),
}
SETS = {
    "docker's 14": capabilities.DEFAULT,
    "none": (),
    "all": capabilities.ALL,
    "SYS_ADMIN": (*capabilities.DEFAULT, "CAP_SYS_ADMIN"),
}
VALUES = (0, 1, 2, 8, 16, 37, 38, 39, 40, 41, 0x20000, 0x20008, 0x10000, 0xFFFFFFFF, 0x7E020000, 0x10000000, 0x11)
WIDE = (1 << 32, 1 << 32 | 8, 1 << 32 | 39, 0xFFFFFFFF << 32, (1 << 64) - 1)
# The kernel takes the first argument of these for an int, and so do we; libseccomp looks at the whole register.
INTS = ("socket", "personality")
needs_libseccomp = pytest.mark.skipif(libseccomp.load() is None, reason="libseccomp2 is not installed")


def compiled(profile: dict, held: Iterable[str], machine: str | None = None) -> bytes:
    """The program of a profile in JSON's own form."""
    return seccomp.compile_profile(seccomp_rules.read(json.dumps(profile)), held, machine)


def applies(rule: dict, held: set[str], arch: str) -> bool:
    includes, excludes = rule.get("includes") or {}, rule.get("excludes") or {}
    return (
        not held.intersection(excludes.get("caps", ()))
        and arch not in excludes.get("arches", ())
        and held.issuperset(includes.get("caps", ()))
        and (not includes.get("arches") or arch in includes["arches"])
    )


@needs_libseccomp
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("held", SETS)
def test_the_verdicts_on_dockers_profile_are_libseccomps(machine: str, held: str) -> None:
    library = libseccomp.load()
    arch, parts = MACHINES[machine]
    rules = [rule for rule in PROFILE["syscalls"] if applies(rule, set(SETS[held]), arch)]
    theirs = libseccomp.compile_rules(library, EPERM, [part[0] for part in parts], rules)
    ours = compiled(PROFILE, SETS[held], machine)
    named = {name for rule in PROFILE["syscalls"] for name in rule["names"]}
    with_arguments = {name for rule in PROFILE["syscalls"] if rule.get("args") for name in rule["names"]}
    compared = 0
    for scmp, column, token, base in parts:
        rows = {name: row[TABLE["machines"].index(column)] for name, row in TABLE["numbers"].items()}
        rows = {name: number for name, number in rows.items() if number is not None}
        last = max(number for name, number in rows.items() if name in named and number < 0x10000)
        by_number = {number: name for name, number in rows.items()}
        for number in sorted({*range(700), *rows.values()}):
            name = by_number.get(number, "")
            code = libseccomp.TOKENS[scmp]
            if name and library.seccomp_syscall_resolve_name_arch(code, name.encode()) != number + base:
                continue  # newer than this libseccomp
            # On x32 libseccomp looks at the low words only; ours at the whole registers, which is stricter.
            values = VALUES + (WIDE if column in ("x86_64", "aarch64", "riscv64") else ())
            for value in values if name in with_arguments else (0,):
                for arguments in ((value, 0), (0, value)) if value else ((0, 0),):
                    seen = tuple(one & 0xFFFFFFFF for one in arguments) if name in INTS else arguments
                    expected = bpf_machine.run(theirs, token, number + base, seen)
                    if expected == EPERM and number > last:
                        expected = ENOSYS
                    got = bpf_machine.run(ours, token, number + base, arguments)
                    assert got == expected, (column, number, name, arguments, hex(got), hex(expected))
                    compared += 1
    assert compared > 500


@pytest.mark.parametrize("operator", ["EQ", "NE", "LT", "LE", "GT", "GE", "MASKED_EQ"])
@pytest.mark.parametrize("value", [0, 5, 0xFFFFFFFF, 1 << 32, 5 << 32 | 5, (1 << 64) - 1])
def test_every_comparison_is_of_the_whole_64_bits(operator: str, value: int) -> None:
    rule = {"names": ["read"], "action": "SCMP_ACT_ERRNO", "errnoRet": 7}
    rule["args"] = [{"index": 2, "op": f"SCMP_CMP_{operator}", "value": value, "valueTwo": value & 0x500000005}]
    program = compiled({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}, (), "x86_64")
    meaning = {
        "EQ": lambda given: given == value,
        "NE": lambda given: given != value,
        "LT": lambda given: given < value,
        "LE": lambda given: given <= value,
        "GT": lambda given: given > value,
        "GE": lambda given: given >= value,
        "MASKED_EQ": lambda given: given & value == value & 0x500000005,
    }[operator]
    near = {value + step & (1 << 64) - 1 for step in (-(1 << 32), -1, 0, 1, 1 << 32)}
    for given in near | {0, 4, 6, 0x500000005, 1 << 33}:
        verdict = bpf_machine.run(program, 0xC000003E, 0, (9, 9, given))
        assert verdict == (0x50007 if meaning(given) else ALLOW), hex(given)


@pytest.mark.parametrize("operator", ["EQ", "NE", "LT", "LE", "GT", "GE", "MASKED_EQ"])
@pytest.mark.parametrize("value", [40, (1 << 32) - 1, 1 << 32 | 40])
def test_of_an_int_the_upper_half_of_the_register_says_nothing(operator: str, value: int) -> None:
    """CVE-2026-123876: the kernel sees AF_ALG where a filter sees a number "above 40"."""
    calls = {"socket": 41, "ioctl": 16}
    rules = [
        {
            "names": [name],
            "action": "SCMP_ACT_ERRNO",
            "args": [{"index": index, "op": f"SCMP_CMP_{operator}", "value": value, "valueTwo": value & 44}],
        }
        for index, name in enumerate(calls)
    ]
    program = compiled({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}, (), "x86_64")
    for index, number in enumerate(calls.values()):
        for low in (0, 8, 39, 40, 41, 0xFFFFFFFF):
            plain = bpf_machine.run(program, 0xC000003E, number, (0,) * index + (low,))
            for high in (1, 1 << 31, 0xFFFFFFFF):
                wide = bpf_machine.run(program, 0xC000003E, number, (0,) * index + (high << 32 | low,))
                # A value that no int has is compared as it stands: of it the profile's author meant all.
                assert wide == plain or value >> 32, (hex(high), low)


def test_no_family_is_reached_around_the_default_profile() -> None:
    """AF_ALG and AF_VSOCK, with whatever lies above them in the register."""
    program = compiled(PROFILE, capabilities.DEFAULT, "x86_64")
    for family in (38, 40):
        for high in (0, 1, 1 << 31, 0xFFFFFFFF):
            assert bpf_machine.run(program, 0xC000003E, 41, (high << 32 | family,)) == EPERM
    assert bpf_machine.run(program, 0xC000003E, 41, (2,)) == ALLOW


def test_two_conditions_on_different_arguments_must_both_hold_and_on_one_argument_either() -> None:
    def rule(first: int, second: int) -> dict:
        rows = [{"index": index, "op": "SCMP_CMP_EQ", "value": 3 + at} for at, index in enumerate((first, second))]
        return {
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ALLOW", "args": rows}],
        }

    both = compiled(rule(0, 1), (), "x86_64")
    either = compiled(rule(0, 0), (), "x86_64")
    assert [bpf_machine.run(both, 0xC000003E, 0, pair) for pair in ((3, 4), (3, 3), (4, 4))] == [ALLOW, EPERM, EPERM]
    assert [bpf_machine.run(either, 0xC000003E, 0, (one,)) for one in (3, 4, 5)] == [ALLOW, ALLOW, EPERM]


def test_a_foreign_architecture_is_killed() -> None:
    program = compiled(PROFILE, capabilities.DEFAULT, "x86_64")
    assert bpf_machine.run(program, 0xC00000B7, 0) == KILL


def test_x32_calls_are_killed_when_the_profile_does_not_name_the_architecture() -> None:
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}
    program = compiled(profile, (), "x86_64")
    assert bpf_machine.run(program, 0xC000003E, X32_BIT | 1) == KILL
    assert bpf_machine.run(program, 0xC000003E, 1) == ALLOW


def test_a_call_newer_than_the_profile_does_not_exist_and_an_older_one_is_not_permitted() -> None:
    program = compiled(PROFILE, capabilities.DEFAULT, "x86_64")
    assert bpf_machine.run(program, 0xC000003E, 900) == ENOSYS
    assert bpf_machine.run(program, 0xC000003E, 165) == EPERM


@pytest.mark.parametrize(
    "profile",
    [
        {"defaultAction": "SCMP_ACT_MAYBE"},
        {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_NOTIFY"}]},
        {
            "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{"names": ["read"], "action": "SCMP_ACT_KILL", "args": [{"index": 6, "op": "SCMP_CMP_EQ"}]}],
        },
    ],
)
def test_what_the_format_does_not_know_is_refused(profile: dict) -> None:
    with pytest.raises(Invalid, match="seccomp"):
        compiled(profile, (), "x86_64")


def test_a_profile_with_a_rule_for_every_call_still_fits_and_jumps_far() -> None:
    names = list(TABLE["numbers"])
    rows = [{"index": 0, "op": "SCMP_CMP_EQ", "value": 1 << 33 | at} for at in range(2)]
    rules = [{"names": names[0:400:3], "action": "SCMP_ACT_ALLOW", "args": [row]} for row in rows]
    profile = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules, "architectures": ["SCMP_ARCH_X86"]}
    program = compiled(profile, (), "x86_64")
    for column, token in (("x86_64", 0xC000003E), ("x86", 0x40000003)):
        for at, name in enumerate(names[:400]):
            number = TABLE["numbers"][name][TABLE["machines"].index(column)]
            if number is not None:
                named = at % 3 == 0
                assert (
                    bpf_machine.run(program, token, number, (1 << 33,)) == (ALLOW if named else EPERM) or number > 460
                )
                assert bpf_machine.run(program, token, number, (0,)) in (EPERM, ENOSYS)


def test_the_default_profile_is_compiled_once_for_the_same_capabilities_in_any_order() -> None:
    first = seccomp.default_profile(capabilities.DEFAULT)
    assert seccomp.default_profile(reversed(capabilities.DEFAULT)) is first
    assert len(first) // 8 < 600

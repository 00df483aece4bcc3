"""A client's own seccomp profile: what is read, what is refused, and what its rules depend on."""

import json
import os

import pytest

from engine.errors import Invalid
from engine.kernel.syscalls import machine
from engine.sandbox import seccomp, seccomp_profile
from tests.unit.sandbox import bpf_machine

X86 = 0xC000003E
ALLOW, EPERM, KILL, LOG, TRACE, TRAP, KILL_PROCESS = (
    0x7FFF0000,
    0x50001,
    0,
    0x7FFC0000,
    0x7FF00000,
    0x00030000,
    0x80000000,
)
MKDIR = 83
on_x86 = pytest.mark.skipif(machine() != "x86_64", reason="the numbers are those of x86-64")


def verdict(profile: dict, capabilities: tuple[str, ...] = (), number: int = MKDIR, arguments: tuple = ()) -> int:
    """What the profile says of a system call."""
    return bpf_machine.run(seccomp.compile_text(json.dumps(profile), capabilities), X86, number, arguments)


def rule(action: str, **more: object) -> dict:
    """A profile that allows all but has one rule, for mkdir."""
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir"], "action": action, **more}]}


@on_x86
@pytest.mark.parametrize(
    ("action", "more", "wanted"),
    [
        ("SCMP_ACT_ERRNO", {}, EPERM),
        ("SCMP_ACT_ERRNO", {"errnoRet": 38}, 0x50026),
        ("SCMP_ACT_KILL", {}, KILL),
        ("SCMP_ACT_KILL_THREAD", {}, KILL),
        ("SCMP_ACT_KILL_PROCESS", {}, KILL_PROCESS),
        ("SCMP_ACT_TRAP", {}, TRAP),
        ("SCMP_ACT_LOG", {}, LOG),
        ("SCMP_ACT_TRACE", {"errnoRet": 7}, TRACE | 7),
    ],
)
def test_every_action_has_its_verdict(action: str, more: dict, wanted: int) -> None:
    assert verdict(rule(action, **more)) == wanted
    assert verdict(rule(action, **more), number=0) == ALLOW


@on_x86
def test_the_default_has_an_errno_of_its_own() -> None:
    profile = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 99,
        "syscalls": [{"name": "read", "action": "SCMP_ACT_ALLOW"}],
    }
    assert verdict(profile, number=0) == ALLOW
    profile["syscalls"].append({"name": "mkdirat", "action": "SCMP_ACT_ALLOW"})
    assert verdict(profile) == 0x50000 | 99


@on_x86
@pytest.mark.parametrize(
    ("condition", "held", "applies"),
    [
        ({"includes": {"caps": ["CAP_SYS_ADMIN"]}}, ("CAP_SYS_ADMIN",), True),
        ({"includes": {"caps": ["CAP_SYS_ADMIN"]}}, (), False),
        ({"includes": {"caps": ["CAP_SYS_ADMIN", "CAP_CHOWN"]}}, ("CAP_SYS_ADMIN",), False),
        ({"excludes": {"caps": ["CAP_SYS_ADMIN"]}}, ("CAP_SYS_ADMIN",), False),
        ({"excludes": {"caps": ["CAP_SYS_ADMIN"]}}, (), True),
        ({"includes": {"arches": ["amd64"]}}, (), True),
        ({"includes": {"arches": ["arm64", "s390x"]}}, (), False),
        ({"excludes": {"arches": ["amd64"]}}, (), False),
        ({"includes": {"minKernel": "4.8"}}, (), True),
        ({"includes": {"minKernel": "99.0"}}, (), False),
        ({"excludes": {"minKernel": "4.8"}}, (), False),
        ({"excludes": {"minKernel": "99.0"}}, (), True),
        ({"includes": {}, "excludes": None}, (), True),
    ],
)
def test_a_rule_may_depend_on_capabilities_machine_and_kernel(condition: dict, held: tuple, applies: bool) -> None:
    assert verdict(rule("SCMP_ACT_ERRNO", **condition), held) == (EPERM if applies else ALLOW)


@on_x86
def test_arguments_are_compared() -> None:
    profile = rule("SCMP_ACT_ERRNO", args=[{"index": 1, "value": 0o777, "op": "SCMP_CMP_EQ"}])
    assert verdict(profile, arguments=(5, 0o777)) == EPERM
    assert verdict(profile, arguments=(5, 0o755)) == ALLOW


@on_x86
def test_names_that_no_machine_has_are_passed_over() -> None:
    profile = rule("SCMP_ACT_ERRNO")
    profile["syscalls"].append({"names": ["no_such_call"], "action": "SCMP_ACT_KILL"})
    assert verdict(profile) == EPERM


@on_x86
@pytest.mark.parametrize(
    "more",
    [
        {"architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"]},
        {"archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}]},
    ],
)
def test_architectures_come_as_a_list_or_as_a_map(more: dict) -> None:
    program = seccomp.compile_text(json.dumps({**rule("SCMP_ACT_ERRNO"), **more}), ())
    assert bpf_machine.run(program, 0x40000003, 39) == EPERM  # mkdir of i386
    assert bpf_machine.run(program, 0xC00000B7, 39) == KILL


@pytest.mark.parametrize("text", ["{}", "null", '{"syscalls": []}', '{"defaultAction": ""}'])
def test_a_profile_that_says_nothing_makes_no_filter(text: str) -> None:
    assert seccomp.compile_text(text, ()) == b""


def test_flags_are_the_kernels_bits() -> None:
    flags = [f"SECCOMP_FILTER_FLAG_{name}" for name in ("LOG", "SPEC_ALLOW", "TSYNC", "LOG")]
    assert seccomp.flags_of_text(json.dumps({**rule("SCMP_ACT_LOG"), "flags": flags})) == 6
    assert seccomp.flags_of_text("{}") == 0


ALLOWING = {"defaultAction": "SCMP_ACT_ALLOW"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Decoding seccomp profile failed"),
        ("{not json", "Decoding seccomp profile failed"),
        ("[]", "profile must be an object"),
        ("[" * 100_000, "Decoding seccomp profile failed"),
        ('{"defaultAction": 1}', "defaultAction must be a text"),
        ('{"defaultAction": "SCMP_ACT_MAYBE"}', "unknown action"),
        ('{"defaultAction": "SCMP_ACT_NOTIFY"}', "unknown action"),
        (json.dumps({**ALLOWING, "syscalls": {}}), "syscalls must be a list"),
        (json.dumps({**ALLOWING, "syscalls": [3]}), "syscalls must be an object"),
        (json.dumps({**ALLOWING, "syscalls": [{"names": "read", "action": "SCMP_ACT_KILL"}]}), "names must be a list"),
        (json.dumps({**ALLOWING, "syscalls": [{"names": ["read"]}]}), "unknown action None"),
        (json.dumps(rule("SCMP_ACT_ERRNO", name="read")), "both 'name' and 'names'"),
        (
            json.dumps({**rule("SCMP_ACT_KILL"), "architectures": ["SCMP_ARCH_X86"], "archMap": [{}]}),
            "both 'architectures'",
        ),
        (json.dumps(rule("SCMP_ACT_ERRNO", errnoRet=-1)), "errnoRet must be a number"),
        (json.dumps(rule("SCMP_ACT_ERRNO", errnoRet=True)), "errnoRet must be a number"),
        (
            json.dumps(rule("SCMP_ACT_KILL", args=[{"index": 6, "op": "SCMP_CMP_EQ"}])),
            "index must be a number from 0 to 5",
        ),
        (json.dumps(rule("SCMP_ACT_KILL", args=[{"index": 0, "op": "SCMP_CMP_XX"}])), "cannot compare"),
        (json.dumps(rule("SCMP_ACT_KILL", args=[{"value": 1 << 64, "op": "SCMP_CMP_EQ"}])), "value must be a number"),
        (json.dumps(rule("SCMP_ACT_KILL", args=[{"value": 1e3, "op": "SCMP_CMP_EQ"}])), "value must be a number"),
        (json.dumps(rule("SCMP_ACT_KILL", includes={"minKernel": "new"})), 'invalid kernel version: "new"'),
        (json.dumps({**rule("SCMP_ACT_KILL"), "listenerPath": "/x"}), "needs a listener"),
        (json.dumps({**rule("SCMP_ACT_KILL"), "flags": ["SECCOMP_FILTER_FLAG_NEW_LISTENER"]}), "unknown flag"),
    ],
)
def test_what_is_no_profile_is_refused_by_what_is_wrong_with_it(text: str, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        seccomp.compile_text(text, ())
    assert words in str(refused.value)


def many(count: int, **more: object) -> dict:
    """A profile of so many rules."""
    return {**ALLOWING, "syscalls": [{"names": ["read"], "action": "SCMP_ACT_ERRNO", **more}] * count}


@pytest.mark.parametrize(
    "profile",
    [
        many(seccomp_profile.MOST_RULES + 1),
        many(seccomp_profile.MOST_CONDITIONS + 1, args=[{"index": 0, "op": "SCMP_CMP_EQ"}]),
        many(1, names=["x"] * (seccomp_profile.MOST_NAMES + 1)),
        many(2000, args=[{"index": 0, "value": 1 << 40, "op": "SCMP_CMP_EQ"}]),
        {**ALLOWING, "syscalls": [], "comment": "x" * seccomp_profile.LARGEST_TEXT},
    ],
)
def test_a_profile_too_large_for_the_kernel_is_refused_before_it_costs_anything(profile: dict) -> None:
    before = os.times().user
    with pytest.raises(Invalid):
        seccomp.compile_text(json.dumps(profile), ())
    assert os.times().user - before < 2

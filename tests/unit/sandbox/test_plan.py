"""engine.sandbox.plan: what C is told of an ordinary sandbox, and which sandboxes it is not told of."""

import re
import struct

import pytest

from engine.birth import init, join
from engine.dataclass import replace
from engine.sandbox import capabilities, masks, mounts, plan
from engine.sandbox.spec import Hook, Mount, Rlimit, Root, Sandbox
from tests.harness.daemon import PROJECT

ORDINARY = Sandbox(
    id="x",
    root=Root("/layers", ("1", "2"), "/upper", "/work"),
    namespaces=("mount", "pid", "uts", "ipc", "net"),
    argv=("sh",),
    env=("PATH=/bin",),
    hostname="box",
    mounts=mounts.DEFAULT_MOUNTS[:-1],
    devices=mounts.DEFAULT_DEVICES,
    masked_paths=masks.MASKED_PATHS,
    readonly_paths=masks.READONLY_PATHS,
    capabilities=capabilities.DEFAULT,
)


def steps(made: bytes | None) -> list[str]:
    """The names of a plan's records."""
    assert made is not None
    names, place = [], 0
    while place < len(made):
        size, number = struct.unpack_from("=II", made, place)
        names.append(plan.STEPS[number - 1][0])
        place += size
    assert place == len(made)
    return names


def test_the_order_is_that_of_init() -> None:
    done = steps(plan.compiled(ORDINARY))
    assert done.index("SECLUDE") == 0
    assert done.index("LEAVE_PEERS") < done.index("ROOT") < done.index("FURNISH") < done.index("USER")
    assert done.index("WAIT") < done.index("PIVOT") < done.index("STREAMS")
    assert done[-2:] == ["PRIVILEGES", "EXECUTE"]


def test_each_step_has_the_name_of_a_step_in_python() -> None:
    assert {step for _, step in plan.STEPS} <= {step for step, _ in (*init.STEPS, *join.STEPS)}


def test_each_step_has_a_function_in_c() -> None:
    text = "".join(path.read_text() for path in (PROJECT / "_muxer" / "birth").glob("*.c"))
    assert set(re.findall(r"^STEP\((\w+)\) \{", text, re.MULTILINE)) == set(plan.NUMBERS)


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime": ("/bundle", "runsc")},
        {"hooks": (Hook("createContainer", "/x", (), (), 0),)},
        {"joined": (("net", 1, 2),)},
        {"label": "a:b:c:d"},
        {"uids": ((0, 1000, 10),)},
        {"namespaces": ("pid",)},
        {"namespaces": ("mount", "nope")},
        {"argv": ()},
        {"argv": ("a\0b",)},
        {"env": ("A=\ud800",)},
        {"rlimits": (Rlimit("nofile", 1 << 63, 1 << 63),)},
        {"capabilities": ("CAP_NOPE",)},
        {"sysctls": (("kernel.bogus", "1"),)},
        {"mounts": (Mount("image", "/layers", "/x", data="1"),)},
        {"mounts": (Mount("bind", "/v", "/x", subpath="y", asked=True),)},
        {"mounts": (Mount("tmpfs", "tmpfs", "/x", ("nope",)),)},
        {"root": Root("/layers", ("a:b",), "/upper", "/work")},
        {"root": Root("/layers", ("x" * 5000,), "/upper", "/work")},
        {"env": ("A=" + "x" * plan.MOST,)},
    ],
)
def test_what_only_python_makes_has_no_plan(changes: dict) -> None:
    assert plan.compiled(replace(ORDINARY, **changes)) is None


def test_a_process_beside_the_first_joins_before_it_takes_rights() -> None:
    done = steps(plan.joined(replace(ORDINARY, cgroups=("/sys/fs/cgroup/x/tasks",), tty=True), 1, True))
    assert done == [
        *("SECLUDE", "ENTER_CGROUP", "JOIN", "USER", "CHANGE_DIRECTORY", "JOIN_TERMINAL", "STREAMS"),
        *("PRIVILEGES", "BEAR"),
    ]

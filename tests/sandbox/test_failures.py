"""What a client is told when a container cannot start."""

import pytest

from engine.dataclass import replace
from engine.sandbox.spec import Device, Mount
from engine.wire.report import Failure
from tests.sandbox.harness import Bench

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("argv", "status", "text"),
    [
        (("nosuchcmd",), 127, 'exec: "nosuchcmd": executable file not found in $PATH'),
        (("/nosuch",), 127, 'exec: "/nosuch": stat /nosuch: no such file or directory'),
        (("/etc/passwd",), 126, 'exec: "/etc/passwd": permission denied'),
        (("/etc",), 126, 'exec: "/etc": is a directory: permission denied'),
    ],
)
def test_a_command_that_cannot_run_is_told_in_dockers_words(
    bench: Bench, argv: tuple[str, ...], status: int, text: str
) -> None:
    result = bench.run(bench.sandbox(*argv))
    assert (result.failure.text, result.failure.status, result.status) == (text, status, status)
    assert result.failure.step == "exec" and result.failure.errno


FOREIGN = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\0\xff\xfe\x01\0\0\0" + bytes(200)


@pytest.mark.parametrize("tty", [False, True])
@pytest.mark.parametrize(
    ("content", "argv", "reason"),
    [
        (b"#!/bin/sh\r\necho\r\n", (), "no such file or directory"),
        (b"#!/no/such/interpreter\n", (), "no such file or directory"),
        (b"echo no first line\n", (), "exec format error"),
        (b"", (), "exec format error"),
        (FOREIGN, (), "exec format error"),
        (b"#!/etc/passwd\n", (), "permission denied"),
        (b"#!/bin/sh\n", ("x" * 200_000,), "argument list too long"),
    ],
    ids=["crlf", "interpreter", "text", "empty", "foreign", "forbidden", "long"],
)
def test_what_only_execve_finds_wrong_is_said_by_a_container_that_has_started(
    bench: Bench, content: bytes, argv: tuple[str, ...], reason: str, tty: bool
) -> None:
    """As with runc, whose init tells its stderr: the client may have seen the start already."""
    sandbox = replace(bench.sandbox("program", *argv), env=("PATH=/nowhere:/opt",), tty=tty)
    upper = bench.base / sandbox.root.upper
    (upper / "opt").mkdir()
    (upper / "opt" / "program").write_bytes(content)
    (upper / "opt" / "program").chmod(0o755)
    result = bench.run(sandbox)
    assert not [each for each in result.reports if isinstance(each, Failure)]
    assert (result.status, result.out) == (255, "")
    assert result.err + result.terminal.replace("\r\n", "\n") == f"exec /opt/program: {reason}\n"


@pytest.mark.parametrize(
    ("changes", "step", "text"),
    [
        ({"user": "nosuchuser"}, "user", "unable to find user nosuchuser: no matching entries in passwd file"),
        ({"user": "foo:nogroup"}, "user", "unable to find group nogroup: no matching entries in group file"),
        ({"groups": ("nope",)}, "user", "unable to find group nope: no matching entries in group file"),
        ({"cwd": "/etc/passwd"}, "directory", "directory: etc/passwd not a directory"),
        (
            {"sysctls": (("kernel.bogus", "1"),)},
            "network",
            'sysctl "kernel.bogus" is not in a separate kernel namespace',
        ),
        ({"namespaces": ("pid",)}, "namespaces", "a sandbox cannot be made without a mount namespace of its own"),
        ({"capabilities": ("CAP_NOPE",)}, "privileges", 'unknown capability: "CAP_NOPE"'),
        ({"namespaces": ("mount", "nope")}, "namespaces", "unknown namespace: 'nope'"),
    ],
)
def test_a_wrong_specification_names_the_step_and_the_reason(bench: Bench, changes: dict, step: str, text: str) -> None:
    result = bench.shell("true", **changes)
    assert (result.failure.step, result.failure.text, result.status) == (step, text, 125)


def test_a_mount_that_fails_is_told_with_all_its_parameters(bench: Bench) -> None:
    sandbox = bench.sandbox("true")
    wrong = Mount("tmpfs", "tmpfs", "/x", ("nosuid", "nodev", "noexec"), "size=abc")
    failure = bench.run(replace(sandbox, mounts=(*sandbox.mounts, wrong))).failure
    assert failure.text == (
        'error mounting "tmpfs" to rootfs at "/x": mount src=tmpfs, dst=/x, '
        "flags=MS_NOSUID|MS_NODEV|MS_NOEXEC, data=size=abc: invalid argument"
    )


def test_a_missing_layer_is_a_failure_of_the_root(bench: Bench) -> None:
    sandbox = bench.sandbox("true", layers=("nope",))
    assert bench.run(sandbox).failure.text == "mount: overlay on /: no such file or directory"


def test_a_device_that_is_something_else_already_is_refused(bench: Bench) -> None:
    sandbox = bench.sandbox("true")
    devices = (*sandbox.devices, Device("/etc/passwd", "c", 1, 3))
    assert "/etc/passwd" in bench.run(replace(sandbox, devices=devices)).failure.text


def test_init_gives_up_when_nobody_wants_the_container_any_more(bench: Bench) -> None:
    result = bench.run(bench.sandbox("touch", "/made"), proceed=False)
    assert result.status == 125

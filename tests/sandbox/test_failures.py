"""What a client is told when a container cannot start."""

import pytest

from engine.dataclass import replace
from engine.sandbox.spec import Device, Mount
from tests.sandbox.harness import Bench

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("argv", "status", "text"),
    [
        (("nosuchcmd",), 127, 'exec: "nosuchcmd": executable file not found in $PATH'),
        (("/nosuch",), 127, 'exec: "/nosuch": stat /nosuch: no such file or directory'),
        (("/etc/passwd",), 126, 'exec: "/etc/passwd": permission denied'),
        (("/etc",), 126, 'exec: "/etc": is a directory: permission denied'),
        (("/bin/broken",), 126, "exec /bin/broken: exec format error"),
        (("/bin/script",), 127, "exec /bin/script: no such file or directory"),
    ],
)
def test_a_command_that_cannot_run_is_told_in_dockers_words(
    bench: Bench, argv: tuple[str, ...], status: int, text: str
) -> None:
    sandbox = bench.sandbox(*argv)
    upper = bench.base / sandbox.root.upper
    (upper / "bin").mkdir()
    for name, content in (("broken", "\x7fnot a program"), ("script", "#!/no/such/interpreter\n")):
        (upper / "bin" / name).write_text(content)
        (upper / "bin" / name).chmod(0o755)
    result = bench.run(sandbox)
    assert (result.failure.text, result.failure.status, result.status) == (text, status, status)
    assert result.failure.step == "exec" and result.failure.errno


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

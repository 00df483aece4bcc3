"""Attempts to get out, to keep something, or to be more than was granted."""

import os
import re
import socket
import threading
from pathlib import Path

import pytest

from engine.dataclass import replace
from engine.sandbox import capabilities, seccomp
from engine.sandbox.masks import MASKED_PATHS, READONLY_PATHS
from engine.sandbox.spec import Mount
from tests.sandbox.harness import Bench, Result

pytestmark = pytest.mark.root


def status(result: Result) -> dict[str, str]:
    """/proc/self/status as a dictionary."""
    return dict(re.findall(r"^(\w+):\s+(.*)$", result.out, re.MULTILINE))


def test_capabilities_are_exactly_dockers_14(bench: Bench) -> None:
    found = status(bench.shell("exec cat /proc/self/status"))
    assert {found[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"00000000a80425fb"}
    assert {found[name] for name in ("CapInh", "CapAmb")} == {"0" * 16}


def test_another_user_has_no_capabilities_and_cannot_gain_others(bench: Bench) -> None:
    found = status(bench.shell("exec cat /proc/self/status", user="foo"))
    assert (found["CapEff"], found["CapPrm"], found["CapBnd"]) == ("0" * 16, "0" * 16, "00000000a80425fb")
    assert found["Uid"].split() == ["1000"] * 4 and found["Gid"].split() == ["1001"] * 4


def test_no_capabilities_at_all(bench: Bench) -> None:
    found = status(bench.shell("exec cat /proc/self/status", capabilities=()))
    assert {found[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}


def test_a_capability_that_the_engine_lacks_is_left_out_and_warned_of(bench: Bench) -> None:
    result = bench.shell("exec cat /proc/self/status", capabilities=capabilities.ALL)
    ours = int(re.search(r"CapPrm:\s+(\w+)", Path("/proc/self/status").read_text())[1], 16)
    assert int(status(result)["CapEff"], 16) == ours & capabilities.mask(capabilities.ALL)
    assert bool(result.warnings) == bool(capabilities.mask(capabilities.ALL) & ~ours)


@pytest.mark.parametrize("user", ["", "foo"])
@pytest.mark.parametrize("no_new_privileges", [False, True])
def test_seccomp_is_on_with_and_without_no_new_privileges(bench: Bench, user: str, no_new_privileges: bool) -> None:
    program = seccomp.default_profile(capabilities.DEFAULT)
    result = bench.shell(
        "cat /proc/self/status; unshare -m true; mount -t tmpfs x /tmp",
        user=user,
        seccomp=program,
        no_new_privileges=no_new_privileges,
    )
    found = status(result)
    assert (found["Seccomp"], found["NoNewPrivs"]) == ("2", "1" if no_new_privileges else "0")
    assert result.status != 0 and "Operation not permitted" in result.err


def test_no_descriptor_of_the_engine_survives(bench: Bench) -> None:
    ends = socket.socketpair()
    keep = (os.open("/etc/passwd", os.O_RDONLY), os.open("/", os.O_PATH), *(end.fileno() for end in ends))
    result = bench.run(bench.sandbox("sh", "-c", "ls /proc/1/fd; true"), leak=keep)
    assert result.out.split() == ["0", "1", "2"]


def test_the_session_and_the_keyring_are_not_the_engines(bench: Bench) -> None:
    assert bench.shell("cut -d' ' -f6 /proc/self/stat").out == "1\n"


def test_masked_paths_are_empty_and_cannot_be_written(bench: Bench) -> None:
    script = "for p in %s; do [ -e $p ] || continue; if [ -d $p ]; then ls -A $p; else cat $p; fi; done"
    assert bench.shell(script % " ".join(MASKED_PATHS)) == Result(0, "", "", "", bench.shell("true").reports)
    result = bench.shell("[ ! -d /sys/firmware ] || touch /sys/firmware/x")
    assert result.status == (1 if os.path.isdir("/sys/firmware") else 0)


def test_readonly_paths_and_sys_cannot_be_written(bench: Bench) -> None:
    result = bench.shell("echo 1 > /proc/sys/vm/drop_caches; echo b > /proc/sysrq-trigger; echo x > /sys/kernel/x")
    assert "/proc/sys/vm/drop_caches: Read-only" in result.err
    mounted = bench.shell("grep -E '^proc /proc/' /proc/mounts").out
    for path in READONLY_PATHS:
        if os.path.exists(path):
            assert re.search(rf"^proc {path} proc ro,", mounted, re.MULTILINE)


@pytest.mark.parametrize("target", ["/", "/etc", "../../../../../../../..", "/proc/1/root", "/proc/self/cwd"])
def test_a_mount_target_that_is_a_symbolic_link_stays_inside(bench: Bench, target: str) -> None:
    sandbox = bench.sandbox("sh", "-c", "grep -c ' /trap' /proc/mounts; ls -d /trap/*")
    upper = bench.base / sandbox.root.upper
    (upper / "link").symlink_to(f"{target}/trap" if target.endswith("..") or target == "/" else target)
    source = bench.base / "precious"
    source.mkdir(exist_ok=True)
    before = Path("/proc/self/mountinfo").read_text()
    bind = Mount("bind", str(source), "/link/deeper", ("bind",))
    result = bench.run(replace(sandbox, mounts=(*sandbox.mounts, bind)))
    assert Path("/proc/self/mountinfo").read_text() == before
    assert not os.path.exists("/trap") and not os.path.exists("/etc/deeper")
    if not target.startswith("/proc"):
        assert result.status in (0, 1) and not any("Failure" in repr(one) for one in result.reports), result


def test_proc_on_a_symbolic_link_is_refused(bench: Bench) -> None:
    top = bench.layer("linked-proc")
    os.mknod(top / "proc", 0o600 | 0o20000, os.makedev(0, 0))  # a whiteout
    above = bench.layer("linked-proc-2")
    (above / "proc").symlink_to("/tmp")
    result = bench.shell("true", layers=("1", "linked-proc", "linked-proc-2"))
    assert result.failure.step == "mounts" and "/proc" in result.failure.text


@pytest.mark.parametrize("target", ["/", "/proc/self/fd/7", "../../../.."])
def test_a_working_directory_behind_a_symbolic_link_stays_inside(bench: Bench, target: str) -> None:
    sandbox = bench.sandbox("sh", "-c", "pwd -P; ls ../../../../../.. | tr '\\n' ' '", cwd="/out/there")
    (bench.base / sandbox.root.upper / "out").symlink_to(target)
    host = os.open("/", os.O_PATH)
    result = bench.run(sandbox, leak=(host,))
    os.close(host)
    # What the link in /proc says may be a path by chance: then that is made, and gone to, inside.
    if target.startswith("/proc") and result.status == 125:
        return
    where, inside = result.out.split("\n")[:2]
    assert where.endswith("/there") and (where == "/there" or target.startswith("/proc"))
    assert result.status == 0 and "bin" in inside.split() and "work" not in inside.split(), result


def test_a_passwd_file_that_never_ends_or_is_a_device_is_refused(bench: Bench) -> None:
    for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo):
        sandbox = bench.sandbox("true", user="foo")
        etc = bench.base / sandbox.root.upper / "etc"
        etc.mkdir()
        make(etc / "passwd")
        assert "not a regular file" in bench.run(sandbox).failure.text


@pytest.mark.parametrize("name", ["passwd", "group"])
def test_a_device_in_the_place_of_a_passwd_file_is_not_even_opened(bench: Bench, name: str) -> None:
    """That alone can have effects, of a watchdog for instance. A FIFO tells whether it was opened."""
    sandbox = bench.sandbox("true", user="foo")
    sandbox = replace(sandbox, root=replace(sandbox.root, layers=()))  # its files are the host's own
    fifo = bench.base / sandbox.root.upper / "etc" / name
    fifo.parent.mkdir()
    os.mkfifo(fifo)
    waits = threading.Thread(target=lambda: os.close(os.open(fifo, os.O_WRONLY)))  # for one that opens it to read
    waits.start()
    try:
        assert "not a regular file" in bench.run(sandbox).failure.text
        waits.join(0.05)
        assert waits.is_alive()
    finally:
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        waits.join()


SCRIPTS = {
    "script": "#!/proc/self/exe\n",
    "second": "#!/bin/script\n",
    "spaced": "#! \t../proc/1/exe -c\n",
    "by-link": "#!/bin/link\n",
    "odd": "#!/bin/odd\x0bname\n",
    "return": "#!/bin/odd\rname\n",
}


@pytest.mark.parametrize("argv", ["/proc/self/exe", "/bin/link", "link", *(f"/bin/{name}" for name in SCRIPTS)])
def test_the_engines_own_program_cannot_be_run_inside(bench: Bench, argv: str) -> None:
    """CVE-2019-5736: by a magic link of /proc, as a command, as an interpreter, as an interpreter's interpreter."""
    sandbox = bench.sandbox(argv, "-c", "print('outside')")
    binaries = bench.base / sandbox.root.upper / "bin"
    binaries.mkdir()
    for name, text in SCRIPTS.items():
        (binaries / name).write_bytes(text.encode())
        (binaries / name).chmod(0o755)
    for name in ("link", "odd\x0bname", "odd\rname"):
        (binaries / name).symlink_to("/proc/self/exe")
    result = bench.run(sandbox)
    assert result.failure.step == "exec" and result.status in (126, 127)
    # Our own words: execve(2) must not be tried, where only the image's lack of the program's libraries stops it.
    assert result.failure.text.startswith('exec: "'), result.failure


def test_the_old_root_is_out_of_reach_even_for_chroot(bench: Bench) -> None:
    marker = bench.base / "marker-of-the-host"
    marker.touch()
    result = bench.shell(
        f"ls /proc/1/root/{marker} /..{marker}; umount /; umount -l /; ls /{marker}", capabilities=capabilities.ALL
    )
    assert result.out == ""


def test_block_devices_of_the_host_are_not_there(bench: Bench) -> None:
    assert bench.shell("find /dev -type b").out == ""


def test_two_sandboxes_do_not_share_shared_memory_or_terminals(bench: Bench) -> None:
    assert bench.shell("touch /dev/shm/mine; ls /dev/pts").out == "ptmx\n"
    assert bench.shell("ls /dev/shm").out == ""

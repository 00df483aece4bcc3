"""What a process finds inside its sandbox: names, files, mounts, terminal, limits."""

import os
import re
from pathlib import Path

import pytest

from engine.dataclass import replace
from engine.sandbox.masks import READONLY_PATHS
from engine.sandbox.spec import Mount, Rlimit, Root
from tests.sandbox.harness import Bench

pytestmark = pytest.mark.root


def kernel_is_older_than(*version: int) -> bool:
    """Whether the running kernel is older than this."""
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < version


def test_it_is_process_1_of_its_own_namespaces(bench: Bench) -> None:
    names = ("mnt", "pid", "uts", "ipc", "net", "cgroup")
    inside = bench.shell(f"echo $$; hostname; for n in {' '.join(names)}; do readlink /proc/self/ns/$n; done")
    lines = inside.out.split("\n")
    assert lines[:2] == ["1", "box"]
    assert not {os.readlink(f"/proc/self/ns/{name}") for name in names}.intersection(lines)


def test_a_namespace_that_is_not_asked_for_is_the_hosts(bench: Bench) -> None:
    result = bench.shell(
        "readlink /proc/self/ns/net; readlink /proc/self/ns/uts", namespaces=("mount", "pid", "ipc", "cgroup")
    )
    assert result.out.split() == [os.readlink(f"/proc/self/ns/{name}") for name in ("net", "uts")]


def test_loopback_is_up(bench: Bench) -> None:
    assert "inet 127.0.0.1/8" in bench.shell("ip addr show lo").out


def test_dev_has_dockers_nodes_and_links(bench: Bench) -> None:
    result = bench.shell("cd /dev; for f in *; do readlink $f || stat -c '%n %F %t:%T %a' $f; done")
    lines = set(result.out.splitlines())
    assert {
        "null character special file 1:3 666",
        "zero character special file 1:5 666",
        "full character special file 1:7 666",
        "random character special file 1:8 666",
        "urandom character special file 1:9 666",
        "tty character special file 5:0 666",
        "/proc/self/fd",
        "/proc/self/fd/0",
        "/proc/self/fd/1",
        "/proc/self/fd/2",
        "pts/ptmx",
        "shm directory 0:0 1777",
        "mqueue directory 0:0 1777",
        "pts directory 0:0 755",
    } <= lines
    assert bench.shell("stat -c %a /dev/ptmx /dev/pts/ptmx").out.split() == ["777", "666"]


def test_mounts_are_dockers_and_nothing_of_the_host_is_left(bench: Bench) -> None:
    rows = [line.split() for line in bench.shell("cat /proc/mounts").out.splitlines()]
    kinds = {row[1]: (row[2], set(row[3].split(","))) for row in rows if row[1] not in READONLY_PATHS}
    assert kinds["/"][0] == "overlay"
    assert kinds["/proc"] == ("proc", {"rw", "nosuid", "nodev", "noexec", "relatime"})
    assert {"ro", "nosuid", "nodev", "noexec"} <= kinds["/sys"][1]
    assert {"nosuid", "noexec", "gid=5", "mode=620", "ptmxmode=666"} <= kinds["/dev/pts"][1]
    assert {"rw", "nosuid", "nodev", "noexec", "size=65536k"} <= kinds["/dev/shm"][1]
    assert kinds["/dev/mqueue"][0] == "mqueue"
    assert all(row[2] in ("overlay", "proc", "tmpfs", "devpts", "sysfs", "mqueue") for row in rows)


def test_the_host_sees_none_of_the_mounts(bench: Bench) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    sandbox = bench.sandbox("true")
    assert bench.run(sandbox).status == 0
    assert Path("/proc/self/mountinfo").read_text() == before
    assert str(sandbox.root.upper) not in before


def test_a_readonly_root_can_be_read_and_its_tmpfs_written(bench: Bench) -> None:
    result = bench.shell("cat /etc/group >/dev/null && touch /dev/shm/x && echo fine; touch /x", readonly=True)
    assert result.out == "fine\n" and "Read-only file system" in result.err


def test_a_plain_root_needs_no_overlay(bench: Bench) -> None:
    upper = bench.layers / "1"
    sandbox = replace(bench.sandbox("ls", "/"), root=Root("", (), str(upper), ""))
    assert bench.run(sandbox).out.split() == sorted(os.listdir(upper))


def test_more_layers_than_an_option_page_holds_are_mounted(bench: Bench) -> None:
    base = bench.base / "deep"
    names = [f"layer-with-a-long-name-{number:04}" for number in range(200)]
    for name in names:
        (base / name).mkdir(parents=True)
    (base / names[-1] / "top").touch()
    busybox = os.path.relpath(bench.layers / "1", base)
    sandbox = bench.sandbox("ls", "/top")
    root = replace(sandbox.root, base=str(base), layers=(busybox, *names))
    result = bench.run(replace(sandbox, root=root))
    if bench.way == "old" or kernel_is_older_than(6, 5):  # no lowerdir+: then it is said
        assert result.failure.step == "root" and "overlay" in result.failure.text
    else:
        assert result.out == "/top\n", result


def test_a_missing_working_directory_is_made(bench: Bench) -> None:
    assert bench.shell("pwd; stat -c '%a %u' .", cwd="/a/b/c").out == "/a/b/c\n755 0\n"


def test_a_bind_mount_of_a_directory_and_of_a_file(bench: Bench) -> None:
    source = bench.base / "bound"
    source.mkdir()
    (source / "file").write_text("hello\n")
    base = bench.sandbox("sh", "-c", "cat /new/dir/file /etc/one; touch /new/dir/x /etc/one; echo more >> /etc/one")
    extra = (
        Mount("bind", str(source), "/new/dir", ("rbind",), propagation="rprivate"),
        Mount("bind", str(source / "file"), "/etc/one", ("bind", "ro")),
    )
    result = bench.run(replace(base, mounts=base.mounts + extra))
    assert result.out == "hello\nhello\n" and "Read-only" in result.err
    assert sorted(os.listdir(source)) == ["file", "x"]


@pytest.mark.parametrize(
    ("user", "groups", "expected"),
    [
        ("", (), "0:0:0 10:/root"),
        ("foo", (), "1000:1001:1001 10:/home/foo"),
        ("1000", (), "1000:1001:1001 10:/home/foo"),
        ("foo:root", (), "1000:0:0:/home/foo"),
        ("foo:2000", ("wheel", "77"), "1000:2000:2000 10 77:/home/foo"),
        ("4711", (), "4711:0:0:/"),
        ("4711:12", (), "4711:12:12:/"),
    ],
)
def test_the_user_is_looked_up_in_the_image(bench: Bench, user: str, groups: tuple, expected: str) -> None:
    result = bench.shell("echo $(id -u):$(id -g):$(id -G):$HOME", user=user, groups=groups)
    assert result.out.strip() == expected, result


def test_the_user_owns_its_streams_and_can_open_them_by_name(bench: Bench) -> None:
    result = bench.shell("echo one > /dev/stdout; echo two >> /proc/self/fd/2; stat -Lc %u /dev/stdout", user="foo")
    assert (result.out.split()[-1], result.status) == ("1000", 0), result


def test_home_in_the_environment_wins(bench: Bench) -> None:
    assert bench.shell("echo $HOME", env=("PATH=/bin", "HOME=/x")).out == "/x\n"


def test_environment_and_arguments_are_passed_byte_for_byte(bench: Bench) -> None:
    odd = "a\udcff=ü\n"
    counted = bench.run(
        bench.sandbox("sh", "-c", 'printf %s "$X$0" | wc -c; env | grep -c NOTHING', odd, env=("PATH=/bin", f"X={odd}"))
    )
    assert counted.out.split() == [str(2 * len(odd.encode("utf-8", "surrogateescape"))), "0"]


def test_a_terminal_is_the_controlling_one_with_its_size_and_a_console(bench: Bench) -> None:
    result = bench.shell(
        "tty; stty size; stat -c %F /dev/console; echo x > /dev/tty; ps -o tty | tail -1; stat -Lc '%u %g %a' $(tty)",
        tty=True,
        rows=24,
        columns=80,
        user="foo",
    )
    lines = result.terminal.split("\r\n")
    assert lines[:4] == ["/dev/pts/0", "24 80", "character special file", "x"], result
    assert "1000 5 620" in lines


def test_signals_are_at_their_defaults(bench: Bench) -> None:
    result = bench.shell("grep -E 'Sig(Ign|Blk|Cgt)' /proc/1/status; exec cat /proc/self/status")
    bits = dict(re.findall(r"(Sig\w+):\s+(\w+)", result.out))
    assert int(bits["SigIgn"], 16) == 0 and int(bits["SigBlk"], 16) == 0


def test_the_umask_is_the_one_asked_for(bench: Bench) -> None:
    assert bench.shell("umask").out == "0022\n"
    assert bench.shell("umask", umask=0o077).out == "0077\n"


def test_resource_limits_are_set_and_what_the_host_refuses_is_warned_of(bench: Bench) -> None:
    lowered = bench.shell("ulimit -Sn; ulimit -Hn", rlimits=(Rlimit("nofile", 100, 200),))
    assert lowered.out.split() == ["100", "200"] and lowered.warnings == []
    raised = bench.shell("ulimit -Hn", rlimits=(Rlimit("nofile", 1 << 29, 1 << 29),))
    assert raised.status == 0 and (raised.out == f"{1 << 29}\n" or "ulimit nofile" in raised.warnings[0])


def test_sysctls_are_the_containers_own(bench: Bench) -> None:
    before = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()
    changes = (("net.ipv4.ip_unprivileged_port_start", "7"), ("kernel.msgmax", "4242"))
    result = bench.shell("cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/msgmax", sysctls=changes)
    assert result.out.split() == ["7", "4242"]
    assert Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text() == before


def test_the_oom_score_is_set_or_warned_of(bench: Bench) -> None:
    assert bench.shell("cat /proc/self/oom_score_adj", oom_score_adj=500).out == "500\n"
    lowered = bench.shell("cat /proc/self/oom_score_adj", oom_score_adj=-900)
    assert lowered.out == "-900\n" or "oom score" in lowered.warnings[0]

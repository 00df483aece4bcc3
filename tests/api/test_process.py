"""What a container's process finds: user, directory, environment, names, files, terminal, namespaces."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import rootfs
from tests.harness.daemon import Daemon

pytestmark = pytest.mark.usefixtures("busybox")

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **fields}


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        ("", "uid=0(root) gid=0(root) groups=0(root),10(wheel)"),
        ("root", "uid=0(root) gid=0(root) groups=0(root),10(wheel)"),
        ("daemon", "uid=1(daemon) gid=1(daemon) groups=1(daemon)"),
        ("operator", "uid=37(operator) gid=37(operator) groups=29(audio),37(operator),46(plugdev)"),
        ("37", "uid=37(operator) gid=37(operator) groups=29(audio),37(operator),46(plugdev)"),
        ("1234", "uid=1234 gid=0(root) groups=0(root)"),
        ("1234:5678", "uid=1234 gid=5678 groups=5678"),
        ("daemon:mail", "uid=1(daemon) gid=8(mail) groups=8(mail)"),
        ("1:8", "uid=1(daemon) gid=8(mail) groups=8(mail)"),
    ],
)
def test_the_user_is_looked_up_in_the_images_files(daemon: Daemon, user: str, wanted: str) -> None:
    """Names and numbers, with the supplementary groups that the files give."""
    assert daemon.shell("id", User=user) == wanted


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("nosuchuser", "unable to find user nosuchuser: no matching entries in passwd file"),
        ("root:nosuchgroup", "unable to find group nosuchgroup: no matching entries in group file"),
    ],
)
def test_a_user_that_is_not_there(daemon: Daemon, container: Callable[..., str], user: str, text: str) -> None:
    """The start fails with docker's words."""
    answer = daemon.request("POST", f"/containers/{container('true', User=user)}/start")
    assert (answer.status, answer.message) == (500, text)


def test_groups_are_added(daemon: Daemon) -> None:
    """GroupAdd by name and by number."""
    groups = daemon.shell("id -G", User="1:1", HostConfig=host(GroupAdd=["mail", "4242"])).split()
    assert set(groups) == {"1", "8", "4242"}


def test_the_working_directory(daemon: Daemon) -> None:
    """Root without one; made with its parents where it is missing."""
    assert daemon.shell("pwd") == "/"
    assert daemon.shell("pwd", WorkingDir="/tmp") == "/tmp"
    assert daemon.shell("pwd; ls -ld /made/here", WorkingDir="/made/here").startswith("/made/here\ndrwxr-xr-x")


def test_the_environment(daemon: Daemon) -> None:
    """PATH, HOSTNAME and HOME beside what was asked for; TERM with a terminal."""
    lines = daemon.shell("env", Env=["A=b c", "E="], Hostname="box", User="daemon").split("\n")
    assert {DEFAULT_PATH, "A=b c", "E=", "HOSTNAME=box", "HOME=/usr/sbin"} <= set(lines)
    assert not any(line.startswith("TERM=") for line in lines)
    assert b"TERM=xterm\r\n" in daemon.run("env", Tty=True).stdout


def test_the_environment_holds_nothing_of_the_daemons(daemon: Daemon) -> None:
    """Not one variable more than those."""
    names = {line.split("=")[0] for line in daemon.shell("env -0 | tr '\\0' '\\n'").split("\n")}
    assert names - {"SHLVL", "PWD", "_"} == {"PATH", "HOSTNAME", "HOME"}


def test_the_entrypoint_and_the_command_are_joined(daemon: Daemon) -> None:
    """Arguments are passed as they are."""
    output = daemon.run("a b", "$x", "", "ü", Entrypoint=["printf", "[%s]"])
    assert output.stdout.decode() == "[a b][$x][][ü]"


def test_the_host_name(daemon: Daemon, container: Callable[..., str]) -> None:
    """The first twelve digits of the id, or what was asked for; its domain is the kernel's, and not in the file."""
    one = container("hostname")
    daemon.begin(one)
    daemon.wait(one)
    assert daemon.logs(one)[8:].decode().strip() == one[:12]
    assert daemon.shell("hostname", Hostname="box") == "box"
    script = "cat /proc/sys/kernel/domainname; cat /etc/hostname"
    assert daemon.shell(script, Hostname="box", Domainname="example.org").split("\n") == ["example.org", "box"]


def test_the_files_in_etc(daemon: Daemon) -> None:
    """hosts with localhost and the own name, hostname, resolv.conf."""
    hosts = daemon.shell("cat /etc/hosts", Hostname="box")
    assert re.search(r"^127\.0\.0\.1\s+localhost", hosts, re.MULTILINE)
    assert re.search(r"^::1\s+.*localhost", hosts, re.MULTILINE)
    assert daemon.shell("cat /etc/hostname", Hostname="box") == "box"
    daemon.shell("test -f /etc/resolv.conf && test -r /etc/resolv.conf")


def test_what_is_in_dev(daemon: Daemon) -> None:
    """The usual nodes, links, pts, shm and mqueue; and no host device."""
    script = "cd /dev; stat -c '%n %F %t:%T %a' null zero full random urandom tty; ls /dev"
    *nodes, _ = daemon.shell(script).split("\n", 6)
    assert nodes == [
        "null character special file 1:3 666",
        "zero character special file 1:5 666",
        "full character special file 1:7 666",
        "random character special file 1:8 666",
        "urandom character special file 1:9 666",
        "tty character special file 5:0 666",
    ]
    names = set(daemon.shell("ls /dev").split("\n"))
    wanted = {"null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "mqueue", "core"}
    assert wanted | {"fd", "stdin", "stdout", "stderr"} >= names - {"console"}
    assert wanted - {"core"} <= names
    assert daemon.shell("echo hi > /dev/stdout; readlink /dev/fd; stat -c %a /dev/shm").split("\n") == [
        "hi",
        "/proc/self/fd",
        "1777",
    ]


def test_the_mounts(daemon: Daemon) -> None:
    """The kinds and options that docker gives them."""
    mounts = {
        line.split()[1]: (line.split()[2], set(line.split()[3].split(",")))
        for line in daemon.shell("cat /proc/mounts").split("\n")
    }
    assert mounts["/"][0] in ("overlay", "ext4", "xfs", "btrfs", "tmpfs")
    for path, kind, options in (
        ("/proc", "proc", {"rw", "nosuid", "nodev", "noexec"}),
        ("/sys", "sysfs", {"ro", "nosuid", "nodev", "noexec"}),
        ("/dev", "tmpfs", {"rw", "nosuid"}),
        ("/dev/pts", "devpts", {"rw", "nosuid", "noexec"}),
        ("/dev/shm", "tmpfs", {"rw", "nosuid", "nodev", "noexec"}),
        ("/dev/mqueue", "mqueue", {"rw", "nosuid", "nodev", "noexec"}),
    ):
        assert mounts[path][0] == kind, path
        assert options <= mounts[path][1], path


def test_nothing_of_the_hosts_mounts_is_to_be_seen(daemon: Daemon) -> None:
    """Apart from the three files in /etc no mount shows a path of the host; the old root is gone."""
    lines = daemon.shell("cat /proc/self/mountinfo").split("\n")
    roots = {line.split()[4]: line.split()[3] for line in lines}
    assert [path for path in roots if path.count("oldroot") or path.startswith("/.")] == []
    assert all(path.startswith(("/etc/", "/dev", "/proc", "/sys")) or path == "/" for path in roots)


def test_shm_has_the_size_asked_for(daemon: Daemon) -> None:
    """64 MiB by default."""
    assert daemon.shell("df -k /dev/shm | tail -1 | awk '{print $2}'") == "65536"
    assert daemon.shell("df -k /dev/shm | tail -1 | awk '{print $2}'", HostConfig=host(ShmSize=1 << 20)) == "1024"


def test_the_root_can_be_read_only(daemon: Daemon) -> None:
    """The root, but not what is mounted on it for writing."""
    output = daemon.run("sh", "-c", "echo x > /dev/shm/x && echo x > /file", HostConfig=host(ReadonlyRootfs=True))
    assert output.status != 0 and b"Read-only file system" in output.stderr


def test_a_containers_files_stay_over_a_restart_of_it(daemon: Daemon, container: Callable[..., str]) -> None:
    """And no other container sees them."""
    one = container("sh", "-c", "test -e /mark && exit 5; touch /mark")
    daemon.begin(one)
    assert daemon.wait(one) == 0
    daemon.begin(one)
    assert daemon.wait(one) == 5
    assert daemon.run("test", "-e", "/mark").status == 1


def test_namespaces_are_its_own(daemon: Daemon, container: Callable[..., str]) -> None:
    """Every one of them but the user's; process 1 inside is alone."""
    one = container("sleep", "60")
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    for kind in ("pid", "mnt", "uts", "ipc", "net", "cgroup"):
        mine, its = os.readlink(f"/proc/{daemon.pid}/ns/{kind}"), os.readlink(f"/proc/{pid}/ns/{kind}")
        assert mine != its or kind == "cgroup", kind
    assert os.readlink(f"/proc/{daemon.pid}/ns/user") == os.readlink(f"/proc/{pid}/ns/user")
    assert daemon.shell("echo $$; ls /proc | grep -c '^[0-9]'").split("\n")[0] == "1"


def test_a_new_cgroup_namespace_hides_the_path(daemon: Daemon) -> None:
    """CgroupnsMode private: the container is at the root of what it sees."""
    text = daemon.shell("cat /proc/1/cgroup", HostConfig=host(CgroupnsMode="private"))
    assert {line.split(":", 2)[2] for line in text.split("\n")} == {"/"}


def test_a_terminal_is_the_controlling_one(daemon: Daemon) -> None:
    """Of the container's own devpts, with job control."""
    output = daemon.run("sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2 && echo all", Tty=True)
    assert output.stdout.decode().replace("\r", "") == "/dev/pts/0\nall\n"
    output = daemon.run("sh", "-c", "tty; test -t 1 || echo none")
    assert output.stdout == b"not a tty\nnone\n"


def test_a_terminal_has_the_size_asked_for(daemon: Daemon) -> None:
    """ConsoleSize: rows, columns."""
    output = daemon.run("stty", "size", Tty=True, HostConfig=host(ConsoleSize=[33, 101]))
    assert output.stdout == b"33 101\r\n"


def test_signals_are_as_a_fresh_process_has_them(daemon: Daemon) -> None:
    """Nothing ignored, nothing blocked: what Python ignores must not leak."""
    text = daemon.run("cat", "/proc/1/status").stdout.decode()
    for name in ("SigBlk", "SigIgn"):
        assert re.search(rf"{name}:\t0+$", text, re.MULTILINE), name
    assert daemon.run("sh", "-c", "yes | head -1").stdout == b"y\n"


def test_no_descriptor_leaks_into_the_container(daemon: Daemon) -> None:
    """0, 1 and 2 and the one that ls opens."""
    assert daemon.shell("ls /proc/self/fd | tr '\\n' ' '").split() == ["0", "1", "2", "3"]
    # A child looks, whose own pipe and file process 1 never has.
    look = "ls -l /proc/1/fd | grep -v -e '^total' -e pipe: -e /dev/null"
    assert daemon.shell(f'sh -c "{look}; true"; true') == ""


def test_standard_input_is_empty_without_open_stdin(daemon: Daemon) -> None:
    """End of file at once."""
    assert daemon.run("sh", "-c", "wc -c; readlink /proc/self/fd/0").stdout.split()[0] == b"0"


def test_umask_and_limits(daemon: Daemon) -> None:
    """022; a soft limit can be lowered."""
    assert daemon.shell("umask") == "0022"
    limits = [{"Name": "nofile", "Soft": 100, "Hard": 200}, {"Name": "core", "Soft": 0, "Hard": 0}]
    assert daemon.shell("ulimit -Sn; ulimit -Hn; ulimit -c", HostConfig=host(Ulimits=limits)).split() == [
        "100",
        "200",
        "0",
    ]


def test_process_one_reaps_no_more_than_it_should(daemon: Daemon) -> None:
    """The engine puts nothing between itself and the command: it is process 1 and its own parent is outside."""
    assert daemon.shell("cat /proc/1/comm; grep PPid /proc/1/status").split() == ["sh", "PPid:", "0"]


def test_a_symbolic_link_in_the_image_never_leads_out(daemon: Daemon) -> None:
    """An image whose /etc and /dev are links to places outside gets its files inside, or is refused."""
    files = [("bin/sh", 0o755, Path(rootfs.program()).read_bytes())]
    links = [("etc", "/../../../../tmp/engine-escape"), ("bin/cat", "sh"), ("bin/busybox", "sh")]
    daemon.import_image(rootfs.archive(files, (("bin", 0o755),), links), "evil:etc")
    try:
        daemon.run("/bin/sh", "-c", "true", Image="evil:etc")
    except AssertionError:
        pass  # refused, which is fine
    finally:
        daemon.request("DELETE", "/images/evil:etc?force=1")
    assert not os.path.exists("/tmp/engine-escape")


def test_programs_can_tell_that_they_run_in_a_container(daemon: Daemon, container) -> None:
    """By docker's mark, which is no change of the container's."""
    one = container("ls", "/.dockerenv")
    daemon.begin(one)
    assert daemon.wait(one) == 0
    assert daemon.request("GET", f"/containers/{one}/changes").json() is None

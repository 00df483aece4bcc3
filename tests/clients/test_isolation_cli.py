"""The docker CLI's options about walls and limits, from its words to what a container sees."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.listening import until

Docker = Callable[..., subprocess.CompletedProcess]

pytestmark = pytest.mark.usefixtures("busybox")


@pytest.fixture
def run(docker: Docker) -> Callable[..., str]:
    """`docker run --rm --network none OPTIONS busybox sh -c SCRIPT`, which must succeed; its output."""

    def run_(script: str, *options: str) -> str:
        done = docker("run", "--rm", "--network", "none", *options, "busybox", "sh", "-c", script)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    return run_


@pytest.mark.parametrize(
    ("options", "script", "wanted"),
    [
        (("--privileged",), "grep Seccomp: /proc/self/status; ls /dev/kmsg", "Seccomp:\t0\n/dev/kmsg"),
        (("--device", "/dev/zero:/dev/other:r"), "head -c2 /dev/other | wc -c", "2"),
        (
            ("--device-cgroup-rule", "c 1:11 r", "--cap-add", "SYSLOG"),
            "mknod /tmp/k c 1 11; head -c0 /tmp/k && echo read",
            "read",
        ),
        (("--security-opt", "seccomp=unconfined"), "grep Seccomp: /proc/self/status", "Seccomp:\t0"),
        (("--security-opt", "no-new-privileges"), "grep NoNewPrivs /proc/self/status", "NoNewPrivs:\t1"),
        (("--security-opt", "systempaths=unconfined"), "grep -c ' /proc/' /proc/mounts; true", "0"),
        (("--security-opt", "label=disable"), "echo ran", "ran"),
        (("--sysctl", "net.ipv4.ip_default_ttl=41"), "cat /proc/sys/net/ipv4/ip_default_ttl", "41"),
        (("--ulimit", "nofile=100:200"), "ulimit -Sn; ulimit -Hn", "100\n200"),
        (("--ulimit", "nofile=12:12"), "ulimit -n", "12"),
        (("--ipc", "none"), "grep -c /dev/shm /proc/mounts; true", "0"),
        (("--ipc", "shareable", "--shm-size", "4m"), "df -k /dev/shm | tail -1 | awk '{print $2}'", "4096"),
        (("--pid", "host"), "[ $$ -gt 50 ] && echo hosts", "hosts"),
        (("--init",), "tr '\\0' ' ' < /proc/1/cmdline | cut -c1-24", "/sbin/docker-init -- sh"),
        (("--group-add", "1234"), "id -G", "0 10 1234"),
        (("--oom-score-adj", "77"), "cat /proc/self/oom_score_adj", "77"),
        (
            ("--hostname", "named", "--domainname", "example.org"),
            "hostname; cat /proc/sys/kernel/domainname",
            "named\nexample.org",
        ),
        (("--cgroupns", "host"), "grep -c engine /proc/self/cgroup >/dev/null && echo hosts", "hosts"),
        (("--cgroupns", "private"), "cut -d: -f3 /proc/self/cgroup | sort -u", "/"),
        (("--cap-drop", "ALL", "--cap-add", "CHOWN"), "grep CapEff /proc/self/status", "CapEff:\t0000000000000001"),
        (("--runtime", "runc"), "echo ran", "ran"),
        (("--annotation", "a=b"), "echo ran", "ran"),
        (("--read-only",), "touch /x 2>/dev/null || echo kept", "kept"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_option_does_what_it_says(run: Callable[..., str], options: tuple, script: str, wanted: str) -> None:
    """Seen from inside."""
    assert run(script, *options) == wanted


def test_a_seccomp_profile_from_a_file(run: Callable[..., str], tmp_path: Path) -> None:
    """The CLI sends what is in it."""
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    assert "No space left" in run("mkdir /tmp/x 2>&1; true", "--security-opt", f"seccomp={file}")


def test_the_uts_namespace_and_the_parent_of_the_cgroup(run: Callable[..., str]) -> None:
    """Of the host, and by any path."""
    assert run("hostname", "--uts", "host") == Path("/proc/sys/kernel/hostname").read_text().strip()
    script = "grep -o ':/of-the-cli/inner/' /proc/self/cgroup | sort -u"
    assert run(script, "--cgroup-parent", "/of-the-cli/inner", "--cgroupns", "host") == ":/of-the-cli/inner/"
    for name in ("of-the-cli/inner", "of-the-cli"):
        for directory in Path("/sys/fs/cgroup").glob(f"*/{name}"):
            directory.rmdir()


def test_namespaces_of_another_container(run: Callable[..., str], docker: Docker) -> None:
    """--network, --ipc and --pid container:NAME."""
    docker(
        "run",
        "-d",
        "--name",
        "giver",
        "--hostname",
        "giver",
        "--network",
        "none",
        "--ipc",
        "shareable",
        "busybox",
        "sleep",
        "60",
    )
    try:
        done = docker("run", "--rm", "--network", "container:giver", "busybox", "hostname")
        assert done.stdout == b"giver\n", done.stderr
        assert "sleep 60" in run("ps", "--pid", "container:giver")
        run("echo text > /dev/shm/left", "--ipc", "container:giver")
        assert run("cat /dev/shm/left", "--ipc", "container:giver") == "text"
        docker("stop", "-t", "0", "giver")
        done = docker("run", "--rm", "--network", "container:giver", "busybox", "true")
        assert done.returncode == 125
        assert b"cannot join network namespace of a non running container: container giver is exited" in done.stderr
    finally:
        docker("rm", "-f", "giver")


def test_gpus_are_refused_in_words(docker: Docker) -> None:
    """There is no driver."""
    done = docker("run", "--rm", "--gpus", "all", "busybox", "true")
    assert done.returncode == 125
    assert b"failed to discover GPU vendor from CDI: no known GPU vendor found" in done.stderr


def test_update(docker: Docker) -> None:
    """`docker update` of everything that it has options for."""
    made = docker("run", "-d", "--network", "none", "busybox", "sleep", "60").stdout.decode().strip()
    try:
        options = "--memory 64m --memory-swap 128m --memory-reservation 32m --cpu-shares 200 --cpu-period 50000"
        options += " --cpu-quota 25000 --cpuset-cpus 0 --cpuset-mems 0 --pids-limit 30 --restart on-failure:3"
        done = docker("update", *options.split(), made)
        assert (done.returncode, done.stdout.decode().strip()) == (0, made), done.stderr
        shown = json.loads(docker("inspect", made).stdout)[0]["HostConfig"]
        assert (shown["Memory"], shown["PidsLimit"], shown["CpusetCpus"]) == (64 << 20, 30, "0")
        assert shown["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}
        done = docker("update", "--cpus", "1", made)
        assert done.returncode == 1 and b"Nano CPUs cannot be updated as CPU Period has already been set" in done.stderr
    finally:
        docker("rm", "-f", made)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--pid", "host"), "pid"),
        (("--ipc", "host"), "ipc"),
        (("--uts", "host"), "uts"),
        (("--cgroupns", "host"), "cgroup"),
        (("--privileged",), "net"),
        (("--init",), "pid"),
    ],
    ids=" ".join,
)
def test_an_exec_is_in_all_the_namespaces_of_the_container(docker: Docker, options: tuple, name: str) -> None:
    """Its own and those it shares; also when it has none of that kind."""
    options = ("--network", "none", "--name", "shares", *options)
    made = docker("run", "-d", *options, "busybox", "sh", "-c", f"readlink /proc/self/ns/{name}; exec sleep 60")
    try:
        assert made.returncode == 0, made.stderr
        found = docker("exec", "shares", "readlink", f"/proc/self/ns/{name}")
        assert found.stdout.startswith(name.encode()), found.stderr
        assert found.stdout == until(lambda: docker("logs", "shares").stdout)
    finally:
        docker("rm", "-f", "shares")


def test_an_exec_works_where_everything_is_another_containers(docker: Docker) -> None:
    """Also once that one has ended, as far as its namespaces are still there."""
    giver = ("run", "-d", "--name", "giver2", "--network", "none", "--ipc", "shareable", "busybox", "sleep", "60")
    docker(*giver)
    try:
        shared = ("--network", "container:giver2", "--ipc", "container:giver2")
        made = docker("run", "-d", "--name", "taker", *shared, "busybox", "sleep", "60")
        assert made.returncode == 0, made.stderr
        script = ("sh", "-c", "readlink /proc/self/ns/net; readlink /proc/self/ns/ipc")
        before = docker("exec", "taker", *script).stdout
        assert before.startswith(b"net:[") and before == docker("exec", "giver2", *script).stdout
        docker("rm", "-f", "giver2")
        after = docker("exec", "taker", *script)
        assert (after.returncode, after.stdout) == (0, before), after.stderr
        assert docker("exec", "taker", "cat", "/etc/hosts").returncode == 0
    finally:
        docker("rm", "-f", "giver2", "taker")

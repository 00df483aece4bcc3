"""Attacks of a container that runs, and of what a client may ask of it: one daemon, published flaws by their numbers.

What is tried on images is in test_image_attacks, on copies in test_copy_attacks, on execs in test_exec_attacks.
"""

import base64
import bz2
import gzip
import json
import lzma
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.api.test_crash import monitor_of
from tests.harness import execs
from tests.harness.daemon import Daemon
from tests.unit.images import made

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("busybox")]

TAR = {"Content-Type": "application/x-tar"}
NO_NETWORK = {"NetworkMode": "none"}
EPERM = 1


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {**NO_NETWORK, **fields}


def until(true: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for what another process does soon."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)


@pytest.fixture
def armed(daemon: Daemon, container: Callable[..., str], attacker: bytes) -> Callable[..., str]:
    """A container that runs and has the program of ATTACKER."""

    def start(**body: object) -> str:
        one = container("sleep", "600", **body)
        packed = made.archive(made.member("attacker", attacker, mode=0o755))
        assert daemon.request("PUT", f"/containers/{one}/archive?path=/", packed, TAR).status == 200
        daemon.begin(one)
        return one

    return start


# What is hidden

HIDDEN = (
    *("/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats"),
    *("/sys/devices/virtual/powercap", "/sys/firmware"),
)


def test_cve_2017_16539_and_2018_10892_what_engines_came_to_hide_is_hidden(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Named here once more, whether this host has it or not: nothing is to fall out of the engine's own list."""
    one = container("sh", "-c", f"for p in {' '.join(HIDDEN)}; do ls -A $p; head -c 99 $p; done 2>/dev/null; true")
    assert set(HIDDEN) <= set(daemon.inspect(one)["HostConfig"]["MaskedPaths"])
    daemon.begin(one)
    daemon.wait(one)
    assert [line for line in daemon.logs(one, "stdout=1").split(b"\n") if line and b"/proc/" not in line] == []


# Rights


def test_cve_2021_20188_a_user_has_no_rights_however_privileged_the_container(daemon: Daemon) -> None:
    """Podman's had: CVE-2018-10856 in any container, CVE-2021-20188 in privileged ones, CVE-2016-8867 docker's own."""
    for fields in ({}, {"Privileged": True}, {"CapAdd": ["ALL"]}):
        script = "grep Cap /proc/self/status; cat /etc/shadow"
        said = daemon.run("sh", "-c", script, User="1000", HostConfig=host(**fields))
        sets = dict(re.findall(rb"Cap(\w+):\t(\w+)", said.stdout))
        assert {sets[name] for name in (b"Inh", b"Prm", b"Eff", b"Amb")} == {b"0" * 16}, fields
        assert b"Permission denied" in said.stderr


def test_cve_2022_24769_nothing_is_inheritable_from_the_start(daemon: Daemon) -> None:
    """Of root neither: a program with inheritable file capabilities would get them back."""
    for fields in ({}, {"Privileged": True}, {"CapAdd": ["NET_ADMIN"]}):
        assert (
            daemon.shell("grep -E 'Cap(Inh|Amb)' /proc/self/status | cut -f2", HostConfig=host(**fields)).split()
            == ["0" * 16] * 2
        )


def test_cve_2022_36109_the_groups_are_the_users_from_the_start(daemon: Daemon) -> None:
    """The primary one is in the list, and none of the engine's is (CVE-2022-2989, CVE-2023-25173)."""
    for user, groups in (("1000:1234", ["1234"]), ("1000", ["0"]), ("www-data", ["33"])):
        assert daemon.shell("grep Groups /proc/self/status", User=user).split()[1:] == groups


@pytest.mark.parametrize("family", [38, 40])
def test_cve_2026_31431_and_123876_no_socket_of_the_kernels_cryptography_or_of_the_hypervisor(
    daemon: Daemon, armed: Callable[..., str], family: int
) -> None:
    """Neither plainly nor with bits in the upper half of the register, which the kernel does not look at."""
    one = armed()
    for high in (0, 1, 0x80000000, 0xFFFFFFFF):
        assert execs.shell(daemon, one, f"/attacker socket {high << 32 | family}") == str(EPERM), hex(high)
    assert execs.shell(daemon, one, "/attacker socket 2") != str(EPERM)


def test_cve_2016_10124_what_is_pushed_into_a_terminal_stays_in_the_container(
    daemon: Daemon, armed: Callable[..., str]
) -> None:
    """TIOCSTI: the terminal is one of the container's own instance of devpts, and whoever has none gets none by its
    session (CVE-2016-8649 had lxc-attach leave what it held open)."""
    one = armed(Tty=True)
    script = "/attacker push; stat -L -c %d /proc/self/fd/0; stat -c %d /dev/pts; stat -L -c %d /proc/1/fd/0; true"
    pushed, *devices = execs.run(daemon, one, "sh", "-c", script, Tty=True).out.replace("x", "", 1).split()
    assert pushed.isdigit() and len(devices) == 3 and len(set(devices)) == 1, devices
    said = execs.run(daemon, one, "sh", "-c", "/attacker push; : </dev/tty")
    assert said.out.strip() != "0" and "/dev/tty" in said.err, said


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("NetworkMode", "net.ipv4.ip_forward"),
        ("NetworkMode", "net.core.somaxconn"),
        ("IpcMode", "kernel.shmmax"),
        ("IpcMode", "fs.mqueue.msg_max"),
    ],
)
def test_cve_2022_0532_no_parameter_of_a_namespace_of_the_host(daemon: Daemon, mode: str, name: str) -> None:
    """That would be the host's own."""
    place = Path("/proc/sys", name.replace(".", "/"))
    before = place.read_text()
    wanted = str(int(before) ^ 1)  # another one, and no harm should it come to be
    body = {"Image": "busybox", "Cmd": ["true"], "HostConfig": {**host(Sysctls={name: wanted}), mode: "host"}}
    answer = daemon.request("POST", "/containers/create", body)
    if answer.status == 201:
        one = answer.json()["Id"]
        try:
            answer = daemon.request("POST", f"/containers/{one}/start")
        finally:
            daemon.remove(one)
    assert answer.status in (400, 500) and "sysctl" in answer.message.lower(), answer
    assert place.read_text() == before


@pytest.mark.parametrize("mode", ["host", "private"])
def test_cve_2023_25809_the_cgroups_are_read_only_whosever_view_it_is(daemon: Daemon, mode: str) -> None:
    """Also where the namespace of the cgroups is the host's."""
    script = (
        "for d in /sys/fs/cgroup /sys/fs/cgroup/*; do mkdir $d/x && echo made; echo 0 >$d/cgroup.procs && echo in; done"
        "; mount -o remount,rw /sys/fs/cgroup && echo again; true"
    )
    said = daemon.run("sh", "-c", script, HostConfig=host(CgroupnsMode=mode))
    assert said.stdout == b"" and said.stderr.count(b"Read-only file system") >= 2, said


# What is told to the engine


@pytest.mark.alone
def test_cve_2018_20699_a_large_number_of_a_processor_takes_no_memory(daemon: Daemon) -> None:
    """dockerd made a map of all of them."""
    for name in ("CpusetCpus", "CpusetMems"):
        for text in ("0-2147483647", "1000000000000", "0,0-4294967295", "0-" + "9" * 400, "9" * 5000):
            begun = time.monotonic()
            answer = daemon.request(
                "POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**{name: text})}
            )
            assert answer.status == 400 and time.monotonic() - begun < 2, (text[:40], answer)


def test_cve_2021_43784_a_message_that_is_too_long_for_its_length_says_nothing_else(daemon: Daemon) -> None:
    """runc cut the length of a field to 16 bits, and read the rest of the text as fields of its own."""
    for length in (65_535, 65_536, 65_540, 131_000):
        text = ("\0\1\2\3" * 4 + "x" * length)[-length:].replace("\0", "y")
        said = daemon.run(
            "sh", "-c", "echo ${#LONG}; cut -f2 /proc/self/status | head -n 45", Env=[f"LONG={text}", "B=2"]
        )
        assert said.stdout.startswith(f"{length}\n".encode()), said.stderr[:200]
        label = daemon.create("true", Labels={"long": text}, Hostname="h" * 63)
        assert daemon.inspect(label)["Config"]["Labels"]["long"] == text
        daemon.remove(label)


def test_cve_2022_4318_no_line_of_a_clients_comes_into_a_file_of_the_engines(daemon: Daemon) -> None:
    """CRI-O wrote HOME into /etc/passwd, line ends and all; here the files are hosts, hostname and resolv.conf."""
    line = "\nevil:x:0:0::/:/bin/sh\n9.9.9.9 evil"
    said = daemon.run("cat", "/etc/passwd", Env=[f"HOME=/root{line}"], User="1000").stdout
    assert said == daemon.run("cat", "/etc/passwd").stdout and b"evil" not in said
    for fields in (
        {"Hostname": f"a{line}"},
        {"Domainname": f"a{line}"},
        {"HostConfig": host(ExtraHosts=[f"a{line}:1.2.3.4"])},
        {"HostConfig": host(ExtraHosts=[f"a:1.2.3.4{line}"])},
        {"HostConfig": host(Dns=[f"1.1.1.1{line}"])},
        {"HostConfig": host(DnsSearch=[f"a{line}"])},
        {"HostConfig": host(DnsOptions=["ndots:1", f"a{line}"])},
        {"HostConfig": host(Links=[f"a:b{line}"])},
    ):
        for each in ("\n", "\r", "\x0b", "\u2028"):
            body = json.loads(json.dumps(fields).replace(r"\n", json.dumps(each)[1:-1]))
            answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "Cmd": ["true"], **body})
            assert answer.status == 400, (fields, answer)


def test_cve_2019_13509_no_secret_is_in_the_log(daemon: Daemon) -> None:
    """Which is a debugging one: credentials of registries, variables, arguments of builds, what an exec is given."""
    secrets = [f"hidden-{number}-word" for number in range(9)]
    auth = {"X-Registry-Auth": encoded({"username": "u", "password": secrets[0], "serveraddress": "127.0.0.1:9"})}
    daemon.request("POST", "/images/create?fromImage=127.0.0.1:9/x&tag=1", headers=auth, checked=False)
    daemon.request("POST", "/images/busybox/push?tag=none", headers=auth, checked=False)
    body = {"username": "u", "password": secrets[1], "serveraddress": "127.0.0.1:9"}
    daemon.request("POST", "/auth", body, checked=False)
    config = {"X-Registry-Config": encoded({"127.0.0.1:9": {"username": "u", "password": secrets[2]}})}
    arguments = f'{{"WORD":"{secrets[3]}"}}'
    packed = made.archive(made.member("Dockerfile", b"FROM busybox\nARG WORD\nRUN echo $WORD >/dev/null\n"))
    daemon.request("POST", f"/build?buildargs={quote(arguments)}", packed, {**TAR, **config})
    said = daemon.run("sh", "-c", f"echo {secrets[4]} >/dev/null", Env=[f"A={secrets[5]}"], Labels={"a": secrets[6]})
    assert said.status == 0
    one = daemon.create("sleep", "60")
    daemon.begin(one)
    execs.run(daemon, one, "sh", "-c", "cat >/dev/null", Env=[f"A={secrets[7]}"], stdin=secrets[8].encode())
    daemon.remove(one)
    found = [secret for secret in secrets if secret in daemon.log]
    assert "POST" in daemon.log and not found


def encoded(value: dict) -> str:
    """The form that X-Registry-Auth and X-Registry-Config have."""
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


# What outlasts its welcome


def test_cve_2019_14891_who_keeps_a_container_is_not_killed_with_it(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Its monitor stands in none of the container's cgroups: what the container does with its memory is no danger."""
    one = container("sh", "-c", "sleep 600", HostConfig=host(Memory=16 << 20))
    daemon.begin(one)
    pid = daemon.inspect(one)["State"]["Pid"]
    keeper = monitor_of(daemon, one)
    assert one in Path(f"/proc/{pid}/cgroup").read_text()
    assert one not in Path(f"/proc/{keeper}/cgroup").read_text()
    said = execs.run(daemon, one, "sh", "-c", "tail /dev/zero; echo survived")
    assert "survived" in said.out or said.code == 137
    if not Path(f"/proc/{keeper}").exists():
        # The kernel took process 1 as well, which it may do; then the monitor told how it ended, and left.
        assert daemon.wait(one) == 137
        assert not daemon.inspect(one)["State"]["Error"]


def test_cve_2024_3056_shared_memory_has_its_size_whoever_fills_it(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Who joins another's fills no more than that one was given, also after it was killed and came again."""
    donor = container("sleep", "600", HostConfig=host(IpcMode="shareable", ShmSize=1 << 20))
    daemon.begin(donor)
    for _ in range(2):
        said = daemon.run(
            "sh",
            "-c",
            "head -c 4m /dev/zero >/dev/shm/$$.$(date +%N); df -k /dev/shm | tail -n1",
            HostConfig=host(IpcMode=f"container:{donor}"),
        )
        assert said.stderr and said.stdout.split()[1:3] == [b"1024", b"1024"], said


def load_of(daemon: Daemon) -> tuple[int, int]:
    """How many descriptors and threads the daemon has."""
    place = f"/proc/{daemon.pid}"
    return len(os.listdir(f"{place}/fd")), len(os.listdir(f"{place}/task"))


def test_cve_2022_23471_and_2025_64329_who_goes_away_leaves_nothing_behind(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Execs with a terminal that cannot run and are resized, attached clients that hang up, background children that
    keep an exec's output open (GHSA-7jxh-36q5-gcqv): no thread and no descriptor is left of any."""
    one = container("sleep", "600", OpenStdin=True, Tty=True)
    daemon.begin(one)

    def provoke() -> None:
        failing = execs.create(daemon, one, "/no/such/program", Tty=True)
        with execs.attached(daemon, failing, tty=True) as connection:
            daemon.request("POST", f"/exec/{failing}/resize?h=10&w=10", checked=False)
            connection.read_to_end()
        with daemon.connection() as connection:
            connection.open_stream("POST", f"/containers/{one}/attach?stream=1&stdin=1&stdout=1", None, UPGRADE)
        lingering = execs.create(daemon, one, "sh", "-c", "sleep 600 & echo over")
        with execs.attached(daemon, lingering) as connection:
            connection.read_until(b"over")

    provoke()
    before = load_of(daemon)
    for _ in range(12):
        provoke()
    until(lambda: all(now <= then + 2 for now, then in zip(load_of(daemon), before, strict=True)), 60)


UPGRADE = {"Connection": "Upgrade", "Upgrade": "tcp"}


def test_cve_2022_31030_what_a_command_says_is_not_kept_in_memory(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """Of a health check, which nobody reads, and of an exec whose reader stands still (CVE-2022-1708)."""
    flood = ["CMD-SHELL", "head -c 100m /dev/zero"]
    one = container("sleep", "600", Healthcheck={"Test": flood, "Interval": 10**9, "Timeout": 20 * 10**9, "Retries": 1})
    Path(f"/proc/{daemon.pid}/clear_refs").write_text("5")
    before = peak(daemon)
    daemon.begin(one)
    standing = execs.create(daemon, one, "head", "-c", "100m", "/dev/zero")
    with execs.attached(daemon, standing):
        until(lambda: bool(daemon.inspect(one)["State"]["Health"]["Log"]), 60)
        assert len(daemon.inspect(one)["State"]["Health"]["Log"][0]["Output"]) <= 4099  # 4096 and "..."
        assert peak(daemon) - before < 32 << 10


def peak(daemon: Daemon) -> int:
    """The most memory that the daemon has had since it was last forgotten, in KB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{daemon.pid}/status").read_text())[1])


# What is run, and where


def test_cve_2022_1227_and_2026_41567_no_program_of_the_container_is_run_by_the_engine(
    daemon: Daemon, container: Callable[..., str]
) -> None:
    """podman top ran the image's nsenter, docker cp its xz and unpigz. Each program here tells who runs it."""
    programs = (
        "ps nsenter top id getent tar gzip gunzip unpigz pigz xz unxz lzma zstd unzstd bzip2 cp sh1 runc docker-init"
    )
    trap = (
        "mkdir -p /usr/bin /usr/local/bin /usr/sbin; for p in " + programs + "; do for d in bin sbin usr/bin usr/sbin"
    )
    trap += (
        " usr/local/bin; do [ -d /$d ] || continue; rm -f /$d/$p; printf '#!/bin/busybox sh\\n/bin/busybox echo ran $0"
    )
    trap += " >/proc/1/fd/1\\n' >/$d/$p; chmod 755 /$d/$p; done; done; touch /ready; exec /bin/busybox sleep 600"
    one = container("sh", "-c", trap)
    daemon.begin(one)
    until(lambda: daemon.request("HEAD", f"/containers/{one}/archive?path=/ready").status == 200)
    plain = made.archive(made.member("theirs", b"x"))
    for compress in (gzip.compress, lzma.compress, bz2.compress):
        answer = daemon.request("PUT", f"/containers/{one}/archive?path=/tmp", compress(plain), TAR)
        assert answer.status == 200, answer
    for path in ("top", "archive?path=/etc", "changes", "export", "stats?stream=0&one-shot=1", "logs?stdout=1"):
        assert daemon.request("GET", f"/containers/{one}/{path}", checked=False).status == 200, path
    daemon.request("POST", f"/commit?container={one}&repo=trapped")
    daemon.request("DELETE", "/images/trapped:latest?force=1")
    assert b"ran" not in daemon.logs(one)
    execs.run(daemon, one, "/bin/ps")  # so that it can fail: this is how it is told
    until(lambda: b"ran /bin/ps" in daemon.logs(one))


def test_cve_2019_18466_a_name_is_no_pattern(daemon: Daemon, container: Callable[..., str]) -> None:
    """podman cp looked for what matches, on the host."""
    one = container("sh", "-c", "mkdir /d; echo mine >'/d/*'; echo other >/d/other")
    daemon.begin(one)
    daemon.wait(one)
    for name in ("/etc/pass*", "/e?c/passwd", "/etc/[p]asswd", "/d/othe?"):
        assert daemon.request("GET", f"/containers/{one}/archive?path={name.replace('?', '%3F')}").status == 404, name
    body = daemon.request("GET", f"/containers/{one}/archive?path=/d/*").body
    assert b"mine" in body and b"other" not in body

"""Memory, processor and process limits, seen from inside the container and in its cgroup."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.daemon import Daemon
from tests.harness.leaks import cgroups_of

pytestmark = pytest.mark.usefixtures("busybox")

MIB = 1 << 20
# (HostConfig, file on cgroup v1, text there, file on v2, text there)
LIMITS = [
    ({"Memory": 64 * MIB}, "memory/memory.limit_in_bytes", "67108864", "memory.max", "67108864"),
    ({"MemoryReservation": 32 * MIB}, "memory/memory.soft_limit_in_bytes", "33554432", "memory.low", "33554432"),
    ({"NanoCpus": 500_000_000}, "cpu/cpu.cfs_quota_us", "50000", "cpu.max", "50000 100000"),
    ({"CpuPeriod": 50_000, "CpuQuota": 20_000}, "cpu/cpu.cfs_quota_us", "20000", "cpu.max", "20000 50000"),
    ({"CpuShares": 512}, "cpu/cpu.shares", "512", "cpu.weight", None),
    ({"PidsLimit": 64}, "pids/pids.max", "64", "pids.max", "64"),
    ({"CpusetCpus": "0"}, "cpuset/cpuset.cpus", "0", "cpuset.cpus", "0"),
]


def cgroup(daemon: Daemon, container: str, file: str) -> Path:
    """A file of the container's cgroup on the host: by process 1's own list (v1: `controller/name`)."""
    pid = daemon.inspect(container)["State"]["Pid"]
    controller, _, name = file.rpartition("/")
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and (controller or not controllers):
            mounted = f"/sys/fs/cgroup/{controller}" if controller else "/sys/fs/cgroup"
            return Path(f"{mounted}{path}/{name}")
    raise AssertionError(f"process {pid} has no cgroup of {controller!r}")


@pytest.mark.parametrize(("limits", "old", "old_text", "new", "new_text"), LIMITS, ids=[str(row[0]) for row in LIMITS])
def test_a_limit_is_in_the_cgroup(
    daemon: Daemon,
    container: Callable[..., str],
    limits: dict,
    old: str,
    old_text: str,
    new: str,
    new_text: str | None,
) -> None:
    """The kernel shows it."""
    one = container("sleep", "60", HostConfig={"NetworkMode": "none", **limits})
    daemon.begin(one)
    if daemon.request("GET", "/info").json()["CgroupVersion"] == "1":
        assert cgroup(daemon, one, old).read_text().strip() == old_text
    elif new_text is not None:
        assert cgroup(daemon, one, new).read_text().strip() == new_text
    for field, value in limits.items():
        assert daemon.inspect(one)["HostConfig"][field] == value


def test_too_much_memory_ends_the_container(daemon: Daemon, container: Callable[..., str]) -> None:
    """Killed by the kernel, and the state says by what."""
    limits = {"Memory": 16 * MIB, "MemorySwap": 16 * MIB, "NetworkMode": "none"}
    one = container("sh", "-c", "x=$(head -c 200m /dev/zero | tr '\\0' a)", HostConfig=limits)
    daemon.begin(one)
    assert daemon.wait(one) == 137
    assert daemon.inspect(one)["State"]["OOMKilled"] is True


def test_processes_are_counted(daemon: Daemon) -> None:
    """The one too many cannot be forked."""
    script = "for i in 1 2 3 4 5 6 7 8; do sleep 60 & done; wait"
    output = daemon.run("sh", "-c", script, HostConfig={"PidsLimit": 4, "NetworkMode": "none"})
    assert output.status != 0 and b"fork" in output.stderr


def test_a_limit_of_minus_one_is_none(daemon: Daemon, container: Callable[..., str]) -> None:
    """PidsLimit -1 and 0, MemorySwap -1."""
    for limits in ({"PidsLimit": -1}, {"PidsLimit": 0}, {"Memory": 64 * MIB, "MemorySwap": -1}):
        assert daemon.run("true", HostConfig={"NetworkMode": "none", **limits}).status == 0


def test_the_cgroup_is_gone_with_the_container(daemon: Daemon) -> None:
    """At the latest when it is removed."""
    one = daemon.create("sleep", "60")
    daemon.begin(one)
    assert cgroups_of(one)
    daemon.remove(one)
    assert not cgroups_of(one)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"Memory": 1024}, "Minimum memory limit allowed is 6MB"),
        (
            {"Memory": 64 * MIB, "MemorySwap": 32 * MIB},
            "Minimum memoryswap limit should be larger than memory limit, see usage",
        ),
        ({"NanoCpus": 10**9, "CpuQuota": 5000}, "Conflicting options: Nano CPUs and CPU Quota cannot both be set"),
        ({"CpusetCpus": "abc"}, "Invalid value abc for cpuset cpus"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(daemon: Daemon, limits: dict, text: str) -> None:
    """In docker's words."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": limits})
    assert answer.status == 400
    assert answer.message.startswith(text)

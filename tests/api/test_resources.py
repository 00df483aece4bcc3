"""Every limit of HostConfig that lands in a cgroup or on a process, read from there and from inside."""

import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.sandbox.cgroups.v2 import scaled
from tests.api.test_limits import MIB, cgroup
from tests.harness import fixtures
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World

pytestmark = pytest.mark.usefixtures("busybox")

SWAP = ("memory/memory.memsw.limit_in_bytes", "memory.swap.max")


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **fields}


def is_version_1(daemon: Daemon) -> bool:
    """Whether the host's cgroups are of version 1."""
    return daemon.request("GET", "/info").json()["CgroupVersion"] == "1"


@pytest.fixture
def running(daemon: Daemon, container: Callable[..., str]) -> Callable[..., str]:
    """Make running containers; what is warned of at create is an error."""

    def start(**host_config: object) -> str:
        body = {"Image": "busybox", "Cmd": ["sleep", "60"], "HostConfig": host(**host_config)}
        answer = daemon.request("POST", "/containers/create", body).json()
        made.append(answer["Id"])
        assert answer["Warnings"] == [], answer
        daemon.begin(answer["Id"])
        return answer["Id"]

    made: list[str] = []
    yield start
    for each in made:
        daemon.remove(each)


def block_device() -> tuple[str, str]:
    """A block device of the host: its path and numbers."""
    for path in sorted(Path("/dev").iterdir()):
        found = path.lstat()
        if stat.S_ISBLK(found.st_mode) and not path.name.startswith(("ram", "sr")):
            return str(path), f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    pytest.skip("needs a block device")


def test_swap(daemon: Daemon, running: Callable[..., str]) -> None:
    """Twice the memory unless it is said; -1 is without end."""
    for asked, both, alone in (
        ({"Memory": 64 * MIB}, 128 * MIB, 64 * MIB),
        ({"Memory": 64 * MIB, "MemorySwap": 96 * MIB}, 96 * MIB, 32 * MIB),
    ):
        one = running(**asked)
        old = is_version_1(daemon)
        assert cgroup(daemon, one, SWAP[0 if old else 1]).read_text().strip() == str(both if old else alone)
        assert daemon.inspect(one)["HostConfig"]["MemorySwap"] == both
    one = running(Memory=64 * MIB, MemorySwap=-1)
    text = cgroup(daemon, one, SWAP[0 if is_version_1(daemon) else 1]).read_text().strip()
    assert text == "max" or int(text) > 1 << 60


def test_swappiness_and_no_oom_killer(daemon: Daemon, running: Callable[..., str]) -> None:
    """Version 1 alone has them; elsewhere docker's warning says that they are discarded."""
    if not is_version_1(daemon):
        body = {"Image": "busybox", "HostConfig": host(MemorySwappiness=7, OomKillDisable=True, Memory=64 * MIB)}
        answer = daemon.request("POST", "/containers/create", body).json()
        daemon.remove(answer["Id"])
        assert len([text for text in answer["Warnings"] if "discarded" in text]) == 2
        return
    one = running(MemorySwappiness=7, OomKillDisable=True, Memory=64 * MIB)
    assert cgroup(daemon, one, "memory/memory.swappiness").read_text().strip() == "7"
    assert "oom_kill_disable 1" in cgroup(daemon, one, "memory/memory.oom_control").read_text()
    one = running(MemorySwappiness=0)
    assert cgroup(daemon, one, "memory/memory.swappiness").read_text().strip() == "0"


def test_no_oom_killer_without_a_limit_is_warned_of(daemon: Daemon) -> None:
    """In docker's words."""
    body = {"Image": "busybox", "HostConfig": host(OomKillDisable=True)}
    answer = daemon.request("POST", "/containers/create", body).json()
    daemon.remove(answer["Id"])
    if is_version_1(daemon):
        assert answer["Warnings"] == [
            "OOM killer is disabled for the container, but no memory limit is set, this can result in the system"
            " running out of resources."
        ]


def test_the_weight_of_block_io(daemon: Daemon, container: Callable[..., str]) -> None:
    """For all devices."""
    one = container("sleep", "60", HostConfig=host(BlkioWeight=300))
    daemon.begin(one)
    if daemon.inspect(one)["HostConfig"]["BlkioWeight"] == 0:
        pytest.skip("this host has no weights of block devices")
    if is_version_1(daemon):
        assert cgroup(daemon, one, "blkio/blkio.bfq.weight").read_text().split()[-1] == "300"
    elif (file := cgroup(daemon, one, "io.bfq.weight")).exists():
        assert file.read_text() == "default 300\n"
    else:  # a kernel without BFQ
        assert cgroup(daemon, one, "io.weight").read_text() == f"default {scaled(300, bfq=False)}\n"


def test_the_weight_of_one_block_device(daemon: Daemon, container: Callable[..., str]) -> None:
    """Where its scheduler has weights; elsewhere the kernel's refusal is the start's, and nothing is ignored."""
    path, numbers = block_device()
    one = container("sleep", "60", HostConfig=host(BlkioWeightDevice=[{"Path": path, "Weight": 200}]))
    if not daemon.inspect(one)["HostConfig"]["BlkioWeightDevice"]:
        pytest.skip("this host has no weights of block devices")
    answer = daemon.request("POST", f"/containers/{one}/start")
    if answer.status == 500:
        assert "weight" in answer.message and "not supported" in answer.message
        return
    file = "blkio/blkio.bfq.weight_device" if is_version_1(daemon) else "io.bfq.weight"
    assert f"{numbers} 200" in cgroup(daemon, one, file).read_text()


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("BlkioDeviceReadBps", "blkio.throttle.read_bps_device", "rbps"),
        ("BlkioDeviceWriteBps", "blkio.throttle.write_bps_device", "wbps"),
        ("BlkioDeviceReadIOps", "blkio.throttle.read_iops_device", "riops"),
        ("BlkioDeviceWriteIOps", "blkio.throttle.write_iops_device", "wiops"),
    ],
)
def test_the_pace_of_a_block_device(
    daemon: Daemon, running: Callable[..., str], field: str, old: str, new: str
) -> None:
    """Bytes or calls a second."""
    path, numbers = block_device()
    one = running(**{field: [{"Path": path, "Rate": 1_048_576}]})
    if is_version_1(daemon):
        assert cgroup(daemon, one, f"blkio/{old}").read_text().strip() == f"{numbers} 1048576"
    else:
        assert f"{numbers} " in (text := cgroup(daemon, one, "io.max").read_text()) and f"{new}=1048576" in text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/dev/no-such", "stat /dev/no-such: no such file or directory"),
        ("/dev/null", "/dev/null is not a block device"),
    ],
)
def test_a_pace_for_what_is_no_block_device_fails_the_start(
    daemon: Daemon, container: Callable[..., str], path: str, text: str
) -> None:
    """docker finds it out then too."""
    one = container("true", HostConfig=host(BlkioDeviceReadBps=[{"Path": path, "Rate": 1}]))
    answer = daemon.request("POST", f"/containers/{one}/start")
    assert (answer.status, answer.message) == (500, text)


def test_realtime_scheduling(daemon: Daemon, running: Callable[..., str]) -> None:
    """Period and runtime of version 1; a kernel without them refuses in docker's words."""
    asked = {"CpuRealtimePeriod": 1_000_000, "CpuRealtimeRuntime": 10_000}
    if not is_version_1(daemon) or not Path("/sys/fs/cgroup/cpu/cpu.rt_runtime_us").exists():
        answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**asked)})
        assert (answer.status, answer.message) == (400, "kernel does not support CPU real-time scheduler")
        return
    one = running(**asked)
    assert cgroup(daemon, one, "cpu/cpu.rt_period_us").read_text().strip() == "1000000"
    assert cgroup(daemon, one, "cpu/cpu.rt_runtime_us").read_text().strip() == "10000"
    wrong = {"CpuRealtimePeriod": 1000, "CpuRealtimeRuntime": 2000}
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**wrong)})
    assert (answer.status, answer.message) == (
        400,
        "cpu real-time runtime cannot be higher than cpu real-time period",
    )


def test_containers_share_a_budget_of_real_time(world: World) -> None:
    """It is that of their parent, which here is one of the test's own.

    Its runtime stays 0, because all of the host's may be another parent's already.
    """
    parent, top = f"/engine-test-{secrets.token_hex(4)}", Path("/sys/fs/cgroup/cpu")
    options = ["--cpu-rt-period=500000", f"--cgroup-parent={parent}/in", "--exec-opt=native.cgroupdriver=cgroupfs"]
    daemon = world.daemon(options)
    if not (top / "cpu.rt_runtime_us").exists():
        daemon.start(wait=False)
        assert daemon.process.wait(60) == 1
        daemon.process = None
        assert "cpu-rt-period" in daemon.log
        return
    try:
        with fixtures.running(daemon):
            daemon.import_busybox()
            daemon.shell("true")
            for place in (parent, f"{parent}/in"):
                assert Path(f"{top}{place}/cpu.rt_period_us").read_text() == "500000\n"
    finally:
        for each in Path("/sys/fs/cgroup").glob(f"*{parent}"):
            os.rmdir(each / "in")
            os.rmdir(each)


def test_memory_nodes(daemon: Daemon, running: Callable[..., str]) -> None:
    """Those of the first one."""
    one = running(CpusetMems="0")
    file = "cpuset/cpuset.mems" if is_version_1(daemon) else "cpuset.mems"
    assert cgroup(daemon, one, file).read_text().strip() == "0"


def test_what_windows_has_is_discarded_or_refused(daemon: Daemon) -> None:
    """The percent with a warning; the count is kept and not obeyed; the rest is refused, and so in an update."""
    body = {"Image": "busybox", "HostConfig": host(CpuPercent=50, CpuCount=2)}
    answer = daemon.request("POST", "/containers/create", body).json()
    shown = daemon.inspect(answer["Id"])["HostConfig"]
    assert answer["Warnings"] == ["linux does not support CPU percent. Percent discarded."]
    assert (shown["CpuPercent"], shown["CpuCount"]) == (0, 2)
    updating = f"/containers/{answer['Id']}/update"
    told = daemon.request("POST", updating, {"CpuPercent": 50, "CpuCount": 3}).json()
    assert told == {"Warnings": ["linux does not support CPU percent. Percent discarded."]}
    shown = daemon.inspect(answer["Id"])["HostConfig"]
    assert (shown["CpuPercent"], shown["CpuCount"]) == (0, 2)
    for field, what in (("IOMaximumIOps", "IOPs"), ("IOMaximumBandwidth", "bandwidth")):
        updated = daemon.request("POST", updating, {field: 1})
        assert (updated.status, updated.message) == (
            400,
            "Invalid QoS settings: linux does not support Maximum IO Bandwidth or Maximum IO IOps",
        )
        made = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**{field: 1})})
        text = f"invalid option: QoS maximum {what} configuration is not supported on linux"
        assert (made.status, made.message) == (400, text)
    daemon.remove(answer["Id"])


def test_dockerd_looks_at_the_network_first_then_at_isolation_and_then_at_bandwidth(daemon: Daemon) -> None:
    """Whatever else is wrong with a container, the first of these is told."""
    fields: dict = {"IOMaximumIOps": 1, "RestartPolicy": {"Name": "nosuch"}}
    for more, words in (
        ({}, "QoS maximum IOPs"),
        ({"Isolation": "hyperv"}, "invalid isolation (hyperv)"),
        ({"NetworkMode": "container:"}, "invalid network mode"),
    ):
        fields |= more
        body = {"Image": "busybox", "HostConfig": fields}
        answer = daemon.request("POST", "/containers/create", body, checked=False)
        assert answer.status == 400 and words in answer.message, answer


def test_shared_memory_has_the_size_asked_for(daemon: Daemon) -> None:
    """In bytes."""
    script = "df -k /dev/shm | tail -1 | awk '{print $2}'"
    assert daemon.shell(script, HostConfig=host(ShmSize=8 * MIB)) == "8192"
    assert daemon.shell(script, HostConfig=host(ShmSize=8 * MIB, IpcMode="shareable")) == "8192"


def test_resource_limits_and_those_of_the_daemon(make_daemon: Callable[..., Daemon]) -> None:
    """--default-ulimit is for containers that do not name the limit."""
    own = make_daemon("--default-ulimit", "nofile=300:400", "--default-ulimit", "nproc=5000")
    own.import_busybox()
    script = "ulimit -Sn; ulimit -Hn; grep processes /proc/self/limits"
    assert own.shell(script, HostConfig=host()).split()[:5] == ["300", "400", "Max", "processes", "5000"]
    asked = [{"Name": "nofile", "Soft": 10, "Hard": 20}]
    one = own.create("sh", "-c", script, HostConfig=host(Ulimits=asked))
    assert own.inspect(one)["HostConfig"]["Ulimits"] == [
        {"Name": "nofile", "Hard": 20, "Soft": 10},
        {"Name": "nproc", "Hard": 5000, "Soft": 5000},
    ]
    own.begin(one)
    own.wait(one)
    assert own.logs(one)[8:].split()[0] == b"10"
    own.remove(one)


@pytest.mark.parametrize(("name", "kind"), [("nofile", 7), ("core", 4), ("rtprio", 14)])
@pytest.mark.parametrize("soft", [10, -1])
def test_a_soft_limit_above_the_hard_one_is_refused_by_the_kernel(
    daemon: Daemon, name: str, kind: int, soft: int
) -> None:
    """In runc's words, also where the host allows less than either."""
    limit = {"Name": name, "Soft": soft, "Hard": 5}
    one = daemon.create("true", HostConfig=host(Ulimits=[limit]))
    answer = daemon.request("POST", f"/containers/{one}/start")
    daemon.remove(one)
    words = f"error during container init: error setting rlimits for ready process: error setting rlimit type {kind}: "
    assert answer.status == 500 and answer.message.endswith(f"{words}invalid argument"), answer


@pytest.mark.parametrize(("soft", "hard"), [(2**40, 2**40), (-1, -1), (5, -1)])
def test_more_open_files_than_the_kernel_has_for_any_process_are_refused(daemon: Daemon, soft: int, hard: int) -> None:
    """In runc's words; a name in capitals is the same limit."""
    one = daemon.create("true", HostConfig=host(Ulimits=[{"Name": "NoFile", "Soft": soft, "Hard": hard}]))
    answer = daemon.request("POST", f"/containers/{one}/start")
    daemon.remove(one)
    words = "error during container init: error setting rlimits for ready process: error setting rlimit type 7: "
    assert answer.status == 500 and answer.message.endswith(
        f"runc create failed: unable to start container process: {words}operation not permitted"
    ), answer


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"BlkioDeviceReadBps": [None]}, "stat : no such file or directory"),
        ({"BlkioWeightDevice": [None]}, "stat : no such file or directory"),
        ({"BlkioDeviceWriteIOps": [{"Path": "/dev/\0", "Rate": 1}]}, "a NUL character cannot be passed on"),
        ({"Ulimits": [None]}, "wrong rlimit value: RLIMIT_"),
    ],
)
def test_what_is_no_limit_at_all_is_refused_in_words(daemon: Daemon, asked: dict, words: str) -> None:
    """A null in a list, a NUL in a path: at the start at the latest, or left out where the host has no such limits."""
    answer = daemon.request("POST", "/containers/create", {"Image": "busybox", "HostConfig": host(**asked)})
    if answer.status == 201:
        made = answer.json()["Id"]
        answer = daemon.request("POST", f"/containers/{made}/start")
        daemon.remove(made)
    assert answer.status == 204 or words in answer.message, answer

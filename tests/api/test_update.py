"""POST /containers/{id}/update: of a running container, of one that does not run, and what cannot be changed."""

from collections.abc import Callable

import pytest

from engine.sandbox.cgroups.v2 import scaled
from tests.api.fields import disk, disk_numbers
from tests.api.test_limits import MIB, cgroup
from tests.harness.daemon import Daemon
from tests.harness.listening import until

pytestmark = pytest.mark.usefixtures("busybox")

# (changed, file of version 1, text there, file of version 2, text there)
CHANGES = [
    (
        {"Memory": 64 * MIB, "MemorySwap": 128 * MIB},
        "memory/memory.limit_in_bytes",
        "67108864",
        "memory.max",
        "67108864",
    ),
    ({"MemoryReservation": 16 * MIB}, "memory/memory.soft_limit_in_bytes", "16777216", "memory.low", "16777216"),
    ({"CpuShares": 300}, "cpu/cpu.shares", "300", "cpu.weight", "12"),
    ({"CpuPeriod": 50_000, "CpuQuota": 20_000}, "cpu/cpu.cfs_quota_us", "20000", "cpu.max", "20000 50000"),
    ({"NanoCpus": 250_000_000}, "cpu/cpu.cfs_quota_us", "25000", "cpu.max", "25000 100000"),
    ({"CpusetCpus": "0"}, "cpuset/cpuset.cpus", "0", "cpuset.cpus", "0"),
    ({"CpusetMems": "0"}, "cpuset/cpuset.mems", "0", "cpuset.mems", "0"),
    ({"PidsLimit": 33}, "pids/pids.max", "33", "pids.max", "33"),
    ({"BlkioWeight": 300}, "blkio/blkio.bfq.weight", "300", "io.weight", f"default {scaled(300, bfq=False)}"),
]


def host(**fields: object) -> dict:
    """A HostConfig without a network."""
    return {"NetworkMode": "none", **fields}


def update(daemon: Daemon, container: str, **changed: object) -> dict:
    """An update that works; its answer."""
    answer = daemon.request("POST", f"/containers/{container}/update", changed)
    assert answer.status == 200, answer.body
    return answer.json()


def refused(daemon: Daemon, container: str, **changed: object) -> tuple[int, str]:
    """Status and text of an update that does not."""
    answer = daemon.request("POST", f"/containers/{container}/update", changed)
    return answer.status, answer.message


@pytest.fixture
def running(daemon: Daemon, container: Callable[..., str]) -> Callable[..., str]:
    """Make running containers."""

    def start(**host_config: object) -> str:
        made = container("sleep", "60", HostConfig=host(**host_config))
        daemon.begin(made)
        return made

    return start


def value(daemon: Daemon, container: str, old: str, new: str) -> str:
    """What a file of the running container's cgroup says."""
    version = daemon.request("GET", "/info").json()["CgroupVersion"]
    return cgroup(daemon, container, old if version == "1" else new).read_text().strip()


@pytest.mark.parametrize(
    ("changed", "old", "old_text", "new", "new_text"), CHANGES, ids=[str(row[0]) for row in CHANGES]
)
def test_a_running_container_gets_its_new_limit_at_once(
    daemon: Daemon, running: Callable[..., str], changed: dict, old: str, old_text: str, new: str, new_text: str
) -> None:
    """In its cgroup and in what inspect shows; and it keeps it when it is started again."""
    one = running()
    assert update(daemon, one, **changed) == {"Warnings": None}
    version = daemon.request("GET", "/info").json()["CgroupVersion"]
    if "BlkioWeight" in changed and version == "2" and cgroup(daemon, one, "io.bfq.weight").exists():
        new, new_text = "io.bfq.weight", "default 300"
    wanted = old_text if version == "1" else new_text
    assert value(daemon, one, old, new) == wanted
    shown = daemon.inspect(one)["HostConfig"]
    assert {key: shown[key] for key in changed} == changed
    daemon.request("POST", f"/containers/{one}/kill")
    daemon.wait(one)
    daemon.begin(one)
    assert value(daemon, one, old, new) == wanted


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("BlkioDeviceReadBps", "read_bps_device", "rbps"),
        ("BlkioDeviceWriteBps", "write_bps_device", "wbps"),
        ("BlkioDeviceReadIOps", "read_iops_device", "riops"),
        ("BlkioDeviceWriteIOps", "write_iops_device", "wiops"),
    ],
)
def test_the_pace_of_a_device_is_changed_and_taken_back(
    daemon: Daemon, running: Callable[..., str], field: str, old: str, new: str
) -> None:
    """In the cgroup and in what inspect shows; an update that says nothing of it leaves it."""
    one = running()
    rates = [{"Path": disk(), "Rate": 1 << 20}]
    version = daemon.request("GET", "/info").json()["CgroupVersion"]
    kept = f"{disk_numbers()} {1 << 20}" if version == "1" else f"{new}={1 << 20}"
    for changed, shown, text in (({field: rates}, rates, kept), ({"PidsLimit": 9}, rates, kept), ({field: []}, [], "")):
        assert update(daemon, one, **changed) == {"Warnings": None}
        assert daemon.inspect(one)["HostConfig"][field] == shown
        said = value(daemon, one, f"blkio/blkio.throttle.{old}", "io.max")
        assert text in said and (text or kept not in said)


def test_a_device_that_is_none_changes_nothing(daemon: Daemon, running: Callable[..., str]) -> None:
    """Docker's words, as at a start."""
    one = running()
    status, text = refused(daemon, one, BlkioDeviceReadBps=[{"Path": "/dev/nope", "Rate": 5}])
    assert (status, text) == (500, f"Cannot update container {one}: stat /dev/nope: no such file or directory")
    assert not daemon.inspect(one)["HostConfig"]["BlkioDeviceReadBps"]


def test_memory_grows_and_shrinks_with_its_swap(daemon: Daemon, running: Callable[..., str]) -> None:
    """Whichever of the two has to be written first."""
    one = running(Memory=64 * MIB)
    for memory, swap in ((256, 512), (32, 48), (40, 40), (512, -1), (16, 20)):
        update(daemon, one, Memory=memory * MIB, MemorySwap=swap * MIB if swap > 0 else -1)
        assert value(daemon, one, "memory/memory.limit_in_bytes", "memory.max") == str(memory * MIB)


def test_a_limit_on_processes_is_taken_back(daemon: Daemon, running: Callable[..., str]) -> None:
    """With 0 and with -1."""
    one = running(PidsLimit=20)
    for none in (0, -1):
        update(daemon, one, PidsLimit=20)
        update(daemon, one, PidsLimit=none)
        assert value(daemon, one, "pids/pids.max", "pids.max") == "max"
        assert daemon.inspect(one)["HostConfig"]["PidsLimit"] == 0


def test_a_container_that_does_not_run_has_it_at_its_start(daemon: Daemon, container: Callable[..., str]) -> None:
    """It is kept with the container."""
    one = container("sleep", "60", HostConfig=host())
    update(daemon, one, PidsLimit=17, RestartPolicy={"Name": "on-failure", "MaximumRetryCount": 2})
    daemon.begin(one)
    assert value(daemon, one, "pids/pids.max", "pids.max") == "17"
    assert daemon.inspect(one)["HostConfig"]["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 2}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"MemorySwap": 64 * MIB}, "You should always set the Memory limit when using Memoryswap limit, see usage"),
        ({"MemorySwap": 1}, "You should always set the Memory limit when using Memoryswap limit, see usage"),
    ],
)
def test_limits_that_do_not_fit_each_other_end_the_start(
    daemon: Daemon, container: Callable[..., str], changed: dict, words: str
) -> None:
    """An update looks at its own values alone; the start before has told no error."""
    made = container("true", HostConfig=host())
    update(daemon, made, **changed)
    answer = daemon.request("POST", f"/containers/{made}/start")
    assert (answer.status, answer.message) == (400, words)
    state = daemon.request("GET", f"/containers/{made}/json").json()["State"]
    assert (state["Status"], state["Error"]) == ("created", "")


def test_what_was_changed_outlives_the_daemon(own_daemon: Daemon) -> None:
    """It is in the database before the answer."""
    one = own_daemon.create("sleep", "60", HostConfig=host(PidsLimit=50))
    own_daemon.begin(one)
    update(own_daemon, one, PidsLimit=20, CpuShares=512)
    own_daemon.kill9()
    own_daemon.start()
    shown = own_daemon.inspect(one)["HostConfig"]
    assert (shown["PidsLimit"], shown["CpuShares"]) == (20, 512)
    update(own_daemon, one, PidsLimit=21)
    own_daemon.remove(one)


@pytest.mark.parametrize(
    ("changed", "status", "text"),
    [
        ({"Memory": 1}, 400, "Minimum memory limit allowed is 6MB"),
        ({"CpusetCpus": "0-4000"}, 400, "Requested CPUs are not available - requested 0-4000, available: "),
        (
            {"NanoCpus": 10**9, "CpuPeriod": 5000},
            400,
            "Conflicting options: Nano CPUs and CPU Period cannot both be set",
        ),
        ({"RestartPolicy": {"Name": "sometimes"}}, 400, "invalid restart policy: unknown policy 'sometimes'"),
        ({"RestartPolicy": {"Name": "always", "MaximumRetryCount": 3}}, 400, "invalid restart policy: maximum retry"),
        ({"MemorySwappiness": 101}, 400, "Invalid value: 101, valid memory swappiness range is 0-100"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_container_is_looked_for(
    daemon: Daemon, changed: dict, status: int, text: str
) -> None:
    """In docker's words."""
    found, said = refused(daemon, "no-such", **changed)
    assert found == status and said.startswith(text)
    assert refused(daemon, "no-such", CpuShares=5) == (404, "No such container: no-such")


@pytest.mark.parametrize(
    ("has", "changed", "text"),
    [
        ({"CpuPeriod": 50_000}, {"NanoCpus": 10**9}, "Nano CPUs cannot be updated as CPU Period has already been set"),
        ({"CpuQuota": 50_000}, {"NanoCpus": 10**9}, "Nano CPUs cannot be updated as CPU Quota has already been set"),
        ({"NanoCpus": 10**9}, {"CpuPeriod": 50_000}, "CPU Period cannot be updated as NanoCPUs has already been set"),
        ({"NanoCpus": 10**9}, {"CpuQuota": 50_000}, "CPU Quota cannot be updated as NanoCPUs has already been set"),
    ],
)
def test_what_does_not_go_with_what_is_set_is_a_conflict(
    daemon: Daemon, running: Callable[..., str], has: dict, changed: dict, text: str
) -> None:
    """And nothing is changed."""
    one = running(**has)
    before = daemon.inspect(one)["HostConfig"]
    assert refused(daemon, one, **changed) == (409, f"Cannot update container {one}: Conflicting options: {text}")
    assert daemon.inspect(one)["HostConfig"] == before


def test_memory_above_the_swap_that_is_set_is_a_conflict(daemon: Daemon, running: Callable[..., str]) -> None:
    """Both must come together."""
    one = running(Memory=64 * MIB)
    status, text = refused(daemon, one, Memory=256 * MIB)
    assert status == 409 and text.endswith("update the memoryswap at the same time")


def test_what_the_kernel_refuses_changes_nothing(daemon: Daemon, container: Callable[..., str]) -> None:
    """Less memory than is in use (version 1): the old limits are back, and inspect shows them."""
    if daemon.request("GET", "/info").json()["CgroupVersion"] != "1":
        pytest.skip("version 2 makes room by force")
    script = "head -c 50m /dev/zero > /dev/shm/held; echo ready; sleep 60"
    one = container("sh", "-c", script, HostConfig=host(Memory=400 * MIB, MemorySwap=400 * MIB, PidsLimit=40))
    daemon.begin(one)
    until(lambda: b"ready" in daemon.logs(one))
    status, text = refused(daemon, one, PidsLimit=10, Memory=8 * MIB, MemorySwap=8 * MIB)
    assert status == 500 and "memory.limit_in_bytes" in text
    assert value(daemon, one, "memory/memory.limit_in_bytes", "") == str(400 * MIB)
    assert value(daemon, one, "pids/pids.max", "") == "40"
    shown = daemon.inspect(one)["HostConfig"]
    assert (shown["Memory"], shown["PidsLimit"]) == (400 * MIB, 40)


def test_a_paused_container_is_changed_too(daemon: Daemon, running: Callable[..., str]) -> None:
    """Its cgroup is there."""
    one = running()
    daemon.request("POST", f"/containers/{one}/pause")
    update(daemon, one, PidsLimit=11)
    assert value(daemon, one, "pids/pids.max", "pids.max") == "11"
    daemon.request("POST", f"/containers/{one}/unpause")


def test_a_policy_does_not_go_with_automatic_removal(daemon: Daemon, running: Callable[..., str]) -> None:
    """Create refuses it too."""
    one = running(AutoRemove=True)
    status, text = refused(daemon, one, RestartPolicy={"Name": "always"})
    assert (status, text) == (
        409,
        f"Cannot update container {one}: "
        "Restart policy cannot be updated because AutoRemove is enabled for the container",
    )
    update(daemon, one, RestartPolicy={"Name": "no"})


@pytest.mark.parametrize("nothing", [{"MemorySwappiness": -1}, {"RestartPolicy": {"MaximumRetryCount": 3}}])
def test_what_asks_for_nothing_changes_nothing(daemon: Daemon, running: Callable[..., str], nothing: dict) -> None:
    """A policy without a name is none, whatever stands beside, and a swappiness of -1 is that of the host."""
    one = running()
    before = daemon.inspect(one)["HostConfig"]
    assert update(daemon, one, **nothing)["Warnings"] is None
    assert daemon.inspect(one)["HostConfig"] == before


def test_what_cannot_be_changed_is_told(daemon: Daemon, running: Callable[..., str]) -> None:
    """Dockerd passes over it in silence."""
    one = running()
    warnings = update(daemon, one, CpuShares=100, OomKillDisable=True, Devices=[])["Warnings"]
    assert any("OomKillDisable cannot be changed by an update" in text for text in warnings)
    assert daemon.inspect(one)["HostConfig"]["OomKillDisable"] is False

"""A host on which no cgroups are mounted: containers run without limits, and can do no harm with devices."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.harness import rootfs
from tests.harness.daemon import Daemon
from tests.harness.fixtures import World, running

pytestmark = pytest.mark.skipif(rootfs.program() is None, reason="needs busybox: apt-get install busybox-static")
NOTHING = {"NetworkMode": "none"}
# A device that an image brings, of the numbers of /dev/null: who can open this one can open a disk.
OF_THE_IMAGE = "/of-the-image"


@pytest.fixture(scope="module")
def bare(world: World) -> Iterator[Daemon]:
    """A daemon on such a host, with busybox and with an image that brings a device node."""
    machine = world.machine()
    subprocess.run(machine.command(["umount", "-R", "/sys/fs/cgroup"]), check=True)
    with running(world.daemon(machine=machine)) as daemon:
        daemon.import_busybox()
        hostile = daemon.create("mknod", OF_THE_IMAGE, "c", "1", "3", HostConfig={**NOTHING, "Privileged": True})
        daemon.begin(hostile)
        assert daemon.wait(hostile) == 0
        assert daemon.request("POST", f"/commit?container={hostile}&repo=hostile").status == 201
        daemon.remove(hostile)
        yield daemon


def refusal(daemon: Daemon, **host_config: object) -> str:
    """The words with which the start of such a container is refused."""
    container = daemon.create("true", HostConfig={**NOTHING, **host_config})
    answer = daemon.request("POST", f"/containers/{container}/start")
    daemon.remove(container)
    assert answer.status == 500, answer
    return answer.json()["message"]


def test_a_container_runs_and_limits_are_warnings(bare: Daemon) -> None:
    limits = {"Memory": 64 << 20, "CpuShares": 512, "PidsLimit": 20, "BlkioWeight": 300, "CpusetCpus": "0"}
    body = {"Image": "busybox", "Cmd": ["sleep", "600"], "HostConfig": {**NOTHING, **limits}}
    made = bare.request("POST", "/containers/create", {**body, "HostConfig": {**body["HostConfig"], **limits}}).json()
    assert len(made["Warnings"]) == 5
    assert all("Your kernel does not support" in warning and "iscarded" in warning for warning in made["Warnings"])
    bare.begin(made["Id"])
    answer = bare.request("POST", f"/containers/{made['Id']}/update", {"Memory": 64 << 20, "PidsLimit": 9})
    assert answer.status == 200 and len(answer.json()["Warnings"]) == 2, answer
    assert bare.inspect(made["Id"])["HostConfig"]["PidsLimit"] is None
    assert bare.request("POST", f"/containers/{made['Id']}/stop?t=0").status == 204
    assert bare.inspect(made["Id"])["State"]["ExitCode"] == 137
    bare.remove(made["Id"])


def test_info_says_what_there_is_not(bare: Daemon) -> None:
    told = bare.request("GET", "/info").json()
    assert told["CgroupDriver"] == "none" and "CgroupVersion" not in told
    assert "WARNING: No memory limit support" in told["Warnings"]
    assert any("No cgroups are mounted" in warning for warning in told["Warnings"])


def test_what_needs_cgroups_is_refused_in_words(bare: Daemon) -> None:
    container = bare.create("sleep", "600")
    bare.begin(container)
    pause = bare.request("POST", f"/containers/{container}/pause")
    assert (pause.status, "only a cgroup can stop processes" in pause.json()["message"]) == (500, True)
    stats = bare.request("GET", f"/containers/{container}/stats?stream=0")
    assert (stats.status, "only cgroups count" in stats.json()["message"]) == (500, True)
    told = bare.request("POST", f"/containers/{container}/exec", {"Cmd": ["true"], "Privileged": True})
    assert (told.status, "privileged exec" in told.json()["message"]) == (500, True)
    assert bare.inspect(container)["State"]["Running"]
    bare.remove(container)


def test_top_lists_the_processes_of_the_container_alone(bare: Daemon) -> None:
    container = bare.create("sh", "-c", "sleep 601 & exec sleep 602")
    other = bare.create("sleep", "603")
    for each in (container, other):
        bare.begin(each)

    def commands() -> set[str]:
        answer = bare.request("GET", f"/containers/{container}/top")
        assert answer.status == 200, answer
        return {row[-1] for row in answer.json()["Processes"]}

    while len(commands()) < 2:  # the shell has not forked yet
        continue
    assert commands() == {"sleep 601", "sleep 602"}
    for each in (container, other):
        bare.remove(each)


def test_all_processes_of_a_container_end_with_it(bare: Daemon) -> None:
    container = bare.create("sh", "-c", "sleep 604 & sleep 604")
    bare.begin(container)
    first = bare.inspect(container)["State"]["Pid"]
    namespace = subprocess.run(["readlink", f"/proc/{first}/ns/pid"], capture_output=True).stdout
    bare.remove(container)
    left = subprocess.run("readlink /proc/[0-9]*/ns/pid", shell=True, capture_output=True).stdout
    assert namespace and namespace not in left


@pytest.mark.parametrize(
    ("host_config", "words"),
    [
        ({"PidMode": "host"}, "no PID namespace of its own"),
        ({"CapAdd": ["MKNOD"]}, "with CAP_MKNOD the container could use every device of the host"),
        ({"CapAdd": ["SYS_ADMIN"]}, "with CAP_SYS_ADMIN"),
        ({"CapAdd": ["ALL"]}, "with CAP_MKNOD"),
        ({"CapAdd": ["ALL"], "CapDrop": ["MKNOD"]}, "with CAP_SYS_ADMIN"),
        ({"Devices": [{"PathOnHost": "/dev/full", "CgroupPermissions": "r"}]}, "/dev/full cannot be given"),
        (
            {"Devices": [{"PathOnHost": "/dev/full", "PathInContainer": "/x", "CgroupPermissions": "rwm"}]},
            "outside of its /dev",
        ),
    ],
)
def test_what_nothing_would_confine_is_refused_in_words(bare: Daemon, host_config: dict, words: str) -> None:
    assert words in refusal(bare, **host_config)


def test_a_container_gets_the_devices_that_it_is_given_and_no_others(bare: Daemon) -> None:
    attempt = f"mknod /dev/x c 1 3; mknod /x c 1 3; cat {OF_THE_IMAGE}; cat /v{OF_THE_IMAGE}; cat /b/null"
    volume = [{"Type": "volume", "Source": "nodes", "Target": "/v"}, {"Type": "bind", "Source": "/dev", "Target": "/b"}]
    made = bare.run(
        "mknod", f"/v{OF_THE_IMAGE}", "c", "1", "3", HostConfig={**NOTHING, "Privileged": True, "Mounts": volume}
    )
    assert made.status == 0, made
    found = bare.run("sh", "-c", attempt, Image="hostile", HostConfig={**NOTHING, "Mounts": volume})
    said = found.stderr.decode()
    assert said.count("mknod: ") == 2 and said.count("Operation not permitted") == 2, said
    assert said.count("Permission denied") == 3, said
    assert bare.shell("echo ok > /dev/null; head -c 4 /dev/zero | wc -c") == "4"
    device = [{"PathOnHost": "/dev/full", "PathInContainer": "/dev/y", "CgroupPermissions": "rwm"}]
    assert bare.shell("head -c 3 /dev/y | wc -c", HostConfig={**NOTHING, "Devices": device}) == "3"
    assert bare.request("DELETE", "/volumes/nodes").status == 204


def test_device_rules_are_discarded_with_a_warning(bare: Daemon) -> None:
    body = {"Image": "busybox", "HostConfig": {**NOTHING, "DeviceCgroupRules": ["c 1:3 rwm"]}}
    made = bare.request("POST", "/containers/create", body).json()
    assert made["Warnings"][0].endswith("Device rules discarded.")
    bare.remove(made["Id"])


def test_a_privileged_container_has_what_it_has_everywhere(bare: Daemon) -> None:
    script = f"mknod /x c 1 3 && cat /x {OF_THE_IMAGE} && echo done"
    assert bare.shell(script, Image="hostile", HostConfig={**NOTHING, "Privileged": True}) == "done"


def test_an_image_mount_has_no_devices_either(bare: Daemon) -> None:
    mount = [{"Type": "image", "Source": "hostile", "Target": "/i"}]
    found = bare.run("cat", f"/i{OF_THE_IMAGE}", HostConfig={**NOTHING, "Mounts": mount})
    assert b"Permission denied" in found.stderr, found


def test_a_container_lives_through_the_daemons_death(bare: Daemon) -> None:
    container = bare.create("sleep", "600")
    bare.begin(container)
    bare.kill9()
    bare.start()
    assert bare.inspect(container)["State"]["Running"]
    assert bare.request("POST", f"/containers/{container}/kill").status == 204
    assert bare.wait(container) == 137
    bare.remove(container)

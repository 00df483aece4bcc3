"""The cgroup driver systemd on a host that runs systemd with cgroups version 2, and the driver cgroupfs beside it.

Each function `check_...` is one check. It takes a started daemon without containers, or nothing and then starts the
daemons that it needs. It raises AssertionError where the engine falls short. Whoever calls it calls `Daemon.clear`
between two checks.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from engine.daemon.runtime import units
from tests.guests.daemon import CGROUPS, Daemon, scopes, systemctl, until

CGROUPFS = ("--exec-opt", "native.cgroupdriver=cgroupfs")
WORDS = 'cgroup-parent for systemd cgroup should be a valid slice named as "xxx.slice"'
MB = 1 << 20
LIMITS = {
    "Memory": 64 * MB,
    "MemorySwap": 96 * MB,
    "MemoryReservation": 32 * MB,
    "CpuShares": 512,
    "NanoCpus": 1_250_000_000,
    "CpusetCpus": "1",
    "CpusetMems": "0",
    "PidsLimit": 77,
    "BlkioWeight": 300,
    "BlkioDeviceReadBps": [{"Path": "/dev/vda", "Rate": 5 * MB}],
}
FILES = {
    "memory.max": str(64 * MB),
    "memory.swap.max": str(32 * MB),
    "memory.low": str(32 * MB),
    "cpu.weight": "20",
    "cpu.max": "125000 100000",
    "cpuset.cpus": "1",
    "cpuset.mems": "0",
    "pids.max": "77",
}


def files(cgroup: Path, names: object) -> dict[str, str]:
    """The texts of a cgroup's files."""
    return {name: (cgroup / name).read_text().strip() for name in names}


def shaken(test: object) -> None:
    """Call a test now, after systemd has read its files anew, and after it has executed itself anew."""
    for command in ("", "daemon-reload", "daemon-reexec"):
        if command:
            systemctl(command)
        try:
            test()
        except AssertionError as error:
            raise AssertionError(f"after {command or 'nothing'}: {error}") from error


def gone(container: str, cgroup: Path) -> None:
    """Nothing is left of a container's scope."""
    until(
        lambda: not cgroup.exists() and f"engine-{container}.scope" not in scopes(), f"{cgroup} and its unit are gone"
    )


def check_systemd_is_the_driver(daemon: Daemon) -> None:
    """Where systemd runs the host with version 2, it makes the cgroups, as with docker."""
    info = daemon.ask("GET", "/info")
    assert (info["CgroupDriver"], info["CgroupVersion"]) == ("systemd", "2")


def check_a_container_is_a_scope(daemon: Daemon) -> None:
    """A container is a scope in system.slice that is its own to divide; systemd forgets it with the container."""
    made = daemon.run()
    cgroup, unit = daemon.cgroup(made), f"engine-{made}.scope"
    assert cgroup == CGROUPS / "system.slice" / unit
    shown = systemctl("show", unit, "-p", "Slice,Delegate,ActiveState,ControlGroup,DefaultDependencies,CollectMode")
    assert dict(line.split("=", 1) for line in shown.splitlines()) == {
        "Slice": "system.slice",
        "Delegate": "yes",
        "ActiveState": "active",
        "ControlGroup": f"/system.slice/{unit}",
        "DefaultDependencies": "no",
        "CollectMode": "inactive-or-failed",
    }
    assert (cgroup / "cgroup.procs").read_text().split() == [str(daemon.state(made)["Pid"])]
    assert daemon.exec(made, "cat", "/proc/1/cgroup")[1].split() == ["0::/"]
    daemon.remove(made)
    gone(made, cgroup)


def check_a_slice_of_its_own() -> None:
    """`--cgroup-parent` names a slice, of a container or of all; a dash in it is a slice within a slice."""
    with Daemon("--cgroup-parent", "crowd.slice") as daemon:
        own, usual = daemon.run(CgroupParent="team-blue.slice"), daemon.run()
        assert daemon.cgroup(own) == CGROUPS / f"team.slice/team-blue.slice/engine-{own}.scope"
        assert daemon.cgroup(usual) == CGROUPS / f"crowd.slice/engine-{usual}.scope"
        daemon.again()
        assert daemon.exec(usual, "true")[0] == 0  # it is still where it was started
        assert daemon.ask("GET", f"/containers/{usual}/top")["Processes"]
        for container in (own, usual):
            cgroup = daemon.cgroup(container)
            daemon.remove(container)
            gone(container, cgroup)


def check_parents_are_refused_in_dockers_words(daemon: Daemon) -> None:
    """What is no slice is refused at create, and as the daemon's own option."""
    for parent in ("/engine", "engine", ".slice", "a--b.slice", "a/b.slice"):
        body = {"Image": "busybox:latest", "HostConfig": {"CgroupParent": parent}}
        assert daemon.ask("POST", "/containers/create", body, wrong=400) == WORDS, parent
    command = [
        sys.executable,
        "-m",
        "engine",
        "daemon",
        "--cgroup-parent",
        "/x",
        "--data-root",
        f"{daemon.place}/2",
    ]
    command += ["--exec-root", f"{daemon.place}/3", "--pidfile", "", "--host", f"unix://{daemon.place}/4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and WORDS in done.stderr, done.stderr


def check_limits_outlast_a_reload_of_systemd(daemon: Daemon) -> None:
    """All limits are in the kernel's files, and stay there when systemd writes its files anew."""
    made = daemon.run(**LIMITS)
    cgroup = daemon.cgroup(made)

    def test() -> None:
        assert files(cgroup, FILES) == FILES
        assert (cgroup / "io.max").read_text().split()[1:] == [
            f"rbps={5 * MB}",
            "wbps=max",
            "riops=max",
            "wiops=max",
        ]

    shaken(test)


def check_a_part_of_a_hundredth_of_a_processor(daemon: Daemon) -> None:
    """systemd knows whole hundredths of a processor; the file has what was asked for until systemd writes it anew."""
    made = daemon.run(NanoCpus=123_400_000)
    cgroup = daemon.cgroup(made)
    assert (cgroup / "cpu.max").read_text().strip() == "12340 100000"
    systemctl("daemon-reload")
    assert (cgroup / "cpu.max").read_text().strip() in ("12340 100000", "13000 100000")


def check_devices_stay_guarded(daemon: Daemon) -> None:
    """Devices that were not given are out of reach, also after systemd has written its files anew."""
    made = daemon.run()

    def test() -> None:
        code, said = daemon.exec(made, "sh", "-c", "rm -f /d; mknod /d b 254 0 && head -c 1 /d")
        assert code != 0 and "not permitted" in said, said
        assert daemon.exec(made, "head", "-c", "1", "/dev/zero")[0] == 0

    shaken(test)


def check_an_update(daemon: Daemon) -> None:
    """New limits of a running container are the kernel's and systemd's: they outlast a reload. A refusal undoes all."""
    made = daemon.run(**LIMITS)
    cgroup = daemon.cgroup(made)
    asked = {
        "Memory": 48 * MB,
        "MemorySwap": 48 * MB,
        "NanoCpus": 500_000_000,
        "CpusetCpus": "0-1",
        "PidsLimit": -1,
    }
    daemon.ask("POST", f"/containers/{made}/update", {**asked, "CpuShares": 1024})
    wanted = {**FILES, "memory.max": str(48 * MB), "memory.swap.max": "0", "cpu.max": "50000 100000"}
    wanted |= {"cpuset.cpus": "0-1", "pids.max": "max", "cpu.weight": "39"}

    def test() -> None:
        assert files(cgroup, wanted) == wanted

    shaken(test)
    daemon.ask("POST", f"/containers/{made}/update", {"CpusetCpus": "63"}, wrong=400)
    shaken(test)


def check_further_commands(daemon: Daemon) -> None:
    """An exec is in the scope of its container, with its limits; systemd moves nobody out of it."""
    made = daemon.run(Memory=64 * MB)

    def test() -> None:
        assert daemon.exec(made, "cat", "/proc/self/cgroup") == (0, "0::/\r\n")

    shaken(test)
    processes = daemon.ask("GET", f"/containers/{made}/top")["Processes"]
    assert [each[-1] for each in processes] == ["sleep 1000"]


def check_cgroups_within_a_container(daemon: Daemon) -> None:
    """What a privileged container makes below its own cgroup is its own, and goes with it."""
    script = (
        "mkdir /sys/fs/cgroup/a && echo 1 > /sys/fs/cgroup/a/cgroup.procs && mkdir /sys/fs/cgroup/a/b && sleep 1000"
    )
    made = daemon.run("sh", "-c", script, Privileged=True)
    scope = CGROUPS / f"system.slice/engine-{made}.scope"
    until(lambda: (scope / "a/b").exists(), "the container has divided its cgroup")

    def test() -> None:
        assert (scope / "a/b").exists() and daemon.state(made)["Running"]

    shaken(test)
    daemon.ask("POST", f"/containers/{made}/pause")
    daemon.ask("POST", f"/containers/{made}/unpause")
    daemon.remove(made)
    gone(made, scope)


def check_a_pause(daemon: Daemon) -> None:
    """A paused container stays paused while systemd reads its files anew, and can be killed."""
    made = daemon.run()
    cgroup = daemon.cgroup(made)
    daemon.ask("POST", f"/containers/{made}/pause")

    def test() -> None:
        assert "frozen 1" in (cgroup / "cgroup.events").read_text()

    shaken(test)
    daemon.again(how=signal.SIGKILL)
    assert daemon.state(made)["Paused"]
    daemon.ask("POST", f"/containers/{made}/unpause")
    assert "frozen 0" in (cgroup / "cgroup.events").read_text()
    daemon.ask("POST", f"/containers/{made}/pause")
    daemon.ask("POST", f"/containers/{made}/kill")
    assert daemon.wait(made) == 137
    gone(made, cgroup)


def check_stats(daemon: Daemon) -> None:
    """The figures are those of the scope."""
    made = daemon.run("sh", "-c", "x=0; while [ $x -lt 20000 ]; do x=$((x+1)); done; sleep 1000", Memory=64 * MB)
    until(lambda: daemon.stats(made)["cpu_stats"]["cpu_usage"]["total_usage"] > 10**7, "processor time is counted")
    shown = daemon.stats(made)
    assert shown["memory_stats"]["limit"] == 64 * MB and shown["memory_stats"]["usage"] > 0
    assert shown["pids_stats"]["current"] == 1


def check_running_out_of_memory(daemon: Daemon) -> None:
    """A kill by the kernel is recorded, of process 1 and of another process, however soon systemd tidies up."""
    for _ in range(5):
        made = daemon.run("tail", "/dev/zero", Memory=12 * MB, MemorySwap=12 * MB)
        assert daemon.wait(made) == 137
        assert daemon.state(made)["OOMKilled"]
    made = daemon.run("sh", "-c", "tail /dev/zero; exit 3", Memory=12 * MB, MemorySwap=12 * MB)
    assert daemon.wait(made) == 3
    assert daemon.state(made)["OOMKilled"]
    assert daemon.wait(daemon.run("sh", "-c", "exit 137", Memory=12 * MB)) == 137
    assert sum(state["State"] == "exited" for state in daemon.ask("GET", "/containers/json?all=1")) == 7


def check_running_out_of_memory_without_a_daemon(daemon: Daemon) -> None:
    """The next daemon knows of a kill by the kernel that happened while there was none."""
    made = daemon.run(
        "sh", "-c", "while [ ! -e /go ]; do sleep 0.1; done; tail /dev/zero", Memory=12 * MB, MemorySwap=12 * MB
    )
    pid = daemon.state(made)["Pid"]
    Path(f"/proc/{pid}/root/go").touch()
    daemon.stop(signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{pid}"), "it was killed")
    time.sleep(1)
    daemon.start()
    state = daemon.state(made)
    assert (state["ExitCode"], state["OOMKilled"]) == (137, True), state


def check_many_starts_of_one_container(daemon: Daemon) -> None:
    """A scope's name is free at once for the next start: by hand, by `restart`, by a policy."""
    made = daemon.create("true")
    for _ in range(15):
        daemon.ask("POST", f"/containers/{made}/start")
        daemon.wait(made)
    made = daemon.run()
    for _ in range(5):
        daemon.ask("POST", f"/containers/{made}/restart?t=0")
    assert daemon.cgroup(made).exists()
    made = daemon.run("false", RestartPolicy={"Name": "on-failure", "MaximumRetryCount": 3})
    until(lambda: daemon.state(made)["Status"] == "exited", "the policy has given up")
    assert daemon.ask("GET", f"/containers/{made}/json")["RestartCount"] == 3
    until(lambda: len(scopes()) == 1, "one container runs")
    assert "WARNING" not in daemon.log and "ERROR" not in daemon.log, daemon.log


def check_starts_while_systemd_starts_anew(daemon: Daemon) -> None:
    """A start waits for systemd, which answers nobody meanwhile or closes its connections; none fails."""
    for command in ("daemon-reload", "daemon-reexec") * 2:
        with subprocess.Popen(["systemctl", command]):
            for _ in range(4):
                made = daemon.run("true")
                assert daemon.wait(made) == 0
                daemon.remove(made)
    until(lambda: not scopes(), "nothing is left")
    assert "WARNING" not in daemon.log and "ERROR" not in daemon.log, daemon.log


def check_a_leftover_of_the_name(daemon: Daemon) -> None:
    """A scope that is already there by the name, from a run that nobody remembers, is ended first."""
    made = daemon.create("sleep", "1000")
    command = ["systemd-run", "-q", "--scope", "--unit", f"engine-{made}.scope", "sleep", "1000"]
    with subprocess.Popen(command) as left:
        until(lambda: f"engine-{made}.scope" in scopes(), "the scope is there")
        daemon.ask("POST", f"/containers/{made}/start")
        assert left.wait(30) != 0
    assert daemon.exec(made, "true")[0] == 0


def check_the_next_daemon_takes_over(daemon: Daemon) -> None:
    """After kill -9 the next daemon has all of a container: limits, exec, pause, figures, its end."""
    made, short = daemon.run(Memory=64 * MB), daemon.run("sh", "-c", "sleep 2; exit 9")
    cgroup, ending = daemon.cgroup(made), daemon.cgroup(short)
    daemon.stop(signal.SIGKILL)
    gone(short, ending)
    daemon.start()
    assert daemon.state(short)["ExitCode"] == 9
    daemon.ask("POST", f"/containers/{made}/update", {"Memory": 32 * MB, "MemorySwap": 32 * MB})
    assert (cgroup / "memory.max").read_text().strip() == str(32 * MB)
    assert daemon.exec(made, "true")[0] == 0
    assert daemon.stats(made)["memory_stats"]["limit"] == 32 * MB
    daemon.ask("POST", f"/containers/{made}/stop?t=0")
    gone(made, cgroup)


def check_what_a_killed_start_leaves(daemon: Daemon) -> None:
    """A daemon that dies within a start leaves nothing that keeps the container from starting later."""
    made = daemon.create("sleep", "1000")
    for delay in (0.01, 0.03, 0.06, 0.1):
        command = ["curl", "-s", "-X", "POST", "--unix-socket", daemon.socket, f"http://x/containers/{made}/start"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL):
            time.sleep(delay)
            daemon.again(how=signal.SIGKILL)
        if not daemon.state(made)["Running"]:
            daemon.ask("POST", f"/containers/{made}/start")
        assert daemon.exec(made, "true")[0] == 0
        daemon.ask("POST", f"/containers/{made}/kill")
        daemon.wait(made)
    until(lambda: not scopes(), "nothing is left")


def check_cgroupfs_by_option() -> None:
    """By the option the engine makes the cgroups itself, in /engine, and removes that when it stops."""
    with Daemon(*CGROUPFS) as daemon:
        assert daemon.ask("GET", "/info")["CgroupDriver"] == "cgroupfs"
        made = daemon.run(**LIMITS)
        cgroup = daemon.cgroup(made)
        assert cgroup == CGROUPS / "engine" / made
        assert files(cgroup, FILES) == FILES
        assert daemon.exec(made, "cat", "/proc/self/cgroup") == (0, "0::/\r\n")
        assert scopes() == []
        daemon.remove(made)
        assert not cgroup.exists()
        daemon.stop()
        assert not (CGROUPS / "engine").exists()


def check_a_parent_that_existed_before() -> None:
    """With cgroupfs a parent that somebody else has made passes on what limits need."""
    parent = CGROUPS / "there/below"
    parent.mkdir(parents=True)
    try:
        with Daemon(*CGROUPFS) as daemon:
            made = daemon.run(**LIMITS, CgroupParent="/there/below")
            assert daemon.cgroup(made) == parent / made
            assert files(parent / made, FILES) == FILES
    finally:
        parent.rmdir()
        parent.parent.rmdir()


def check_a_change_of_the_driver() -> None:
    """A daemon with the other driver takes over what runs, each container where it is."""
    for before, after in ((CGROUPFS, ()), ((), CGROUPFS)):
        with Daemon(*before) as daemon:
            made = daemon.run(Memory=64 * MB)
            cgroup = daemon.cgroup(made)
            daemon.again(*after)
            assert daemon.exec(made, "cat", "/proc/self/cgroup") == (0, "0::/\r\n")
            daemon.ask("POST", f"/containers/{made}/pause")
            daemon.ask("POST", f"/containers/{made}/unpause")
            daemon.ask("POST", f"/containers/{made}/update", {"Memory": 32 * MB, "MemorySwap": 32 * MB})
            systemctl("daemon-reload")
            assert (cgroup / "memory.max").read_text().strip() == str(32 * MB)
            daemon.ask("POST", f"/containers/{made}/restart?t=0")
            assert daemon.cgroup(made) != cgroup and not cgroup.exists()


def check_systemd_is_asked_over_the_bus_too() -> None:
    """Where systemd's own socket cannot be reached, the system's bus takes the requests on."""
    name = f"engine-test-{os.getpid()}.scope"
    by_bus = units.Units(private="/nonexistent")
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            asked = [("PIDs", "au", [process.pid]), ("Delegate", "b", True)]
            by_bus.start(name, asked, lambda: False)
            by_bus.change(name, [("TasksMax", "t", 55)])
            assert (CGROUPS / f"system.slice/{name}/pids.max").read_text().strip() == "55"
            by_bus.end(name)
            process.wait(30)
        finally:
            process.kill()
    until(lambda: name not in scopes(), "the scope is forgotten")

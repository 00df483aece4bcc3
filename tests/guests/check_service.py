"""The engine under systemd on real cgroup v2: its units, its socket, and its containers."""

import os
import socket
import time

from tests.guests.inside import SOCKET, Host, read


def check_units_start_the_engine_by_its_socket(host: Host) -> None:
    """`install-units` as README has it; the first connection starts the service, which says when it is ready."""
    host.engine("install-units")
    host.run("systemd-analyze", "verify", "/etc/systemd/system/engine.service")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "enable", "--now", "engine.socket")
    assert host.run("systemctl", "is-active", "engine.service", status=3).strip() == "inactive"
    host.until(host.answers)
    host.until(lambda: host.run("systemctl", "is-active", "engine.service").strip() == "active")
    host.run("systemctl", "enable", "engine.service")
    info = host.ask("GET", "/info")
    assert info["CgroupVersion"] == "2"


def check_a_restart_keeps_the_socket_and_the_containers(host: Host) -> None:
    """systemd's socket is never shut down; what runs goes on, and who connects meanwhile is answered."""
    one = host.begin("sleep", "10000", name="kept")
    pid = host.inspect(one)["State"]["Pid"]
    main = host.run("systemctl", "show", "-p", "MainPID", "--value", "engine.service").strip()
    for how in (("restart", "engine.service"), ("kill", "-s", "KILL", "--kill-who=main", "engine.service")):
        host.run("systemctl", *how)
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(120)
            client.connect(SOCKET)
            client.sendall(b"GET /_ping HTTP/1.1\r\nHost: engine\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200")
        assert host.inspect(one)["State"]["Pid"] == pid
    assert host.run("systemctl", "show", "-p", "MainPID", "--value", "engine.service").strip() != main
    assert host.run("systemctl", "is-active", "engine.socket").strip() == "active"
    assert "POLLHUP" not in host.run("journalctl", "-b", "--no-pager", "-u", "engine.socket")


def check_limits_are_those_of_the_kernel(host: Host) -> None:
    """Memory, swap, processors, processes and weights, at create and at update."""
    limits = {"Memory": 64 << 20, "MemorySwap": 64 << 20, "NanoCpus": 500_000_000, "PidsLimit": 50, "CpuShares": 512}
    one = host.begin("sleep", "10000", HostConfig=limits)
    there = cgroup(host, one)
    assert read(f"{there}/memory.max") == str(64 << 20)
    assert read(f"{there}/memory.swap.max") == "0"
    assert read(f"{there}/cpu.max") == "50000 100000"
    assert read(f"{there}/pids.max") == "50"
    host.ask("POST", f"/containers/{one}/update", {"Memory": 96 << 20, "MemorySwap": 96 << 20, "PidsLimit": 60})
    host.run("systemctl", "daemon-reload")
    assert (read(f"{there}/memory.max"), read(f"{there}/pids.max")) == (str(96 << 20), "60")
    host.remove(one)
    assert not os.path.exists(there)


def cgroup(host: Host, one: str) -> str:
    """The container's cgroup, as a directory."""
    with open(f"/proc/{host.inspect(one)['State']['Pid']}/cgroup") as file:
        return "/sys/fs/cgroup" + file.read().strip().partition("::")[2]


def check_too_much_memory_is_told(host: Host) -> None:
    """The kernel kills it, and inspect says so."""
    eats = "head -c 200m /dev/zero | tail"
    one = host.begin("sh", "-c", eats, HostConfig={"Memory": 32 << 20, "MemorySwap": 32 << 20})
    host.wait(one)
    assert host.inspect(one)["State"]["OOMKilled"]
    host.remove(one)


def check_devices_are_guarded(host: Host) -> None:
    """The program that is attached to the cgroup lets /dev/null through, and no disk."""
    one = host.begin("sleep", "10000")
    assert host.execute(one, "sh", "-c", "mknod /d b 254 0 && head -c 1 /d")[0] != 0
    assert host.execute(one, "sh", "-c", "echo x > /dev/null")[0] == 0
    host.remove(one)


def check_a_paused_container_stands_still(host: Host) -> None:
    """And goes on where it was."""
    one = host.begin("sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i > /n; done")
    host.ask("POST", f"/containers/{one}/pause")
    root = f"/proc/{host.inspect(one)['State']['Pid']}/root/n"
    before = read(root)
    time.sleep(0.5)
    assert read(root) == before
    host.ask("POST", f"/containers/{one}/unpause")
    host.until(lambda: read(root) not in ("", before))
    host.remove(one)


def check_an_exec_follows_process_1_into_its_cgroup(host: Host) -> None:
    """Docker or systemd in a container divides its cgroup; execs and health checks go on."""
    divides = (
        "mkdir /sys/fs/cgroup/init; echo 1 > /sys/fs/cgroup/init/cgroup.procs; "
        "echo +memory +pids > /sys/fs/cgroup/cgroup.subtree_control; touch /divided; exec sleep 10000"
    )
    health = {"Test": ["CMD", "true"], "Interval": 1_000_000_000}
    one = host.begin("sh", "-c", divides, Healthcheck=health, HostConfig={"Privileged": True})
    root = f"/proc/{host.inspect(one)['State']['Pid']}/root"
    host.until(lambda: os.path.exists(f"{root}/divided"))
    assert "memory" in read(f"{cgroup(host, one).removesuffix('/init')}/cgroup.subtree_control")
    code, said = host.execute(one, "cat", "/proc/self/cgroup")
    assert (code, said.strip()) == (0, "0::/init")
    host.until(lambda: host.inspect(one)["State"]["Health"]["Status"] == "healthy")
    host.remove(one)


def check_the_figures_of_a_container(host: Host) -> None:
    """Stats and top read the same cgroup."""
    one = host.begin("sh", "-c", "sleep 10000 & wait")
    figures = host.ask("GET", f"/containers/{one}/stats", stream="false")
    assert figures["memory_stats"]["usage"] > 0
    assert figures["pids_stats"]["current"] == 2
    assert len(host.ask("GET", f"/containers/{one}/top")["Processes"]) == 2
    host.remove(one)

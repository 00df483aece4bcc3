"""A host of aarch64: the engine with its C parts, and what depends on the numbers of the machine's system calls."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.guests.inside import PROJECT, SOCKET, Host

MODULES = ("overlay", "bridge", "veth", "nf_tables")
ANSWER = "while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nthere' | nc -l -p 80; done"
DOCKERFILE = "FROM busybox\nRUN uname -m > /machine && test $(id -u) = 0\nCMD cat /machine\n"


def check_modules_that_the_kernel_asks_for_in_vain_are_loaded(host: Host) -> None:
    """Without modprobe, `engine check` finds what a daemon will find."""
    program = Path("/proc/sys/kernel/modprobe")
    usual = program.read_text()
    program.write_text("/no/such/program\n")
    assert not any(os.path.exists(f"/sys/module/{name}") for name in MODULES)
    told = json.loads(host.engine("check", "--json"))
    states = {each["name"]: each["state"] for each in told["checks"]}
    assert told["ready"] and states["bridge and veth"] == states["nf_tables"] == states["overlay"] == "ok", told
    assert all(os.path.exists(f"/sys/module/{name}") for name in MODULES)
    program.write_text(usual)


def check_the_demo_shows_a_container(host: Host) -> None:
    """It brings its own daemon."""
    assert "stream 1: hello from a container" in host.engine("demo")


def check_the_engine_says_what_it_runs_on(host: Host) -> None:
    """And runs with the C muxer that was made for it."""
    with host.daemon():
        info, version = host.ask("GET", "/info"), host.ask("GET", "/version")
        assert (info["Architecture"], version["Arch"]) == ("aarch64", "arm64")
        assert ["Muxer", "c"] in info["DriverStatus"], info["DriverStatus"]
        host.image()
        image = host.ask("GET", "/images/busybox/json")
        assert (image["Os"], image["Architecture"]) == ("linux", "arm64")


def check_containers_run_and_outlive_the_daemon(host: Host) -> None:
    """Output, exit codes, execs, an init, and a daemon that is killed."""
    with host.daemon() as process:
        one = host.begin("sh", "-c", "echo out; echo err >&2; exec sleep 10000", HostConfig={"Init": True})
        pid = host.inspect(one)["State"]["Pid"]
        assert host.execute(one, "sh", "-c", "uname -m; exit 7") == (7, "aarch64\r\n")
        assert "docker-init" in host.execute(one, "cat", "/proc/1/cmdline")[1]
        process.kill()
        process.wait()
    assert os.path.exists(f"/proc/{pid}")
    with host.daemon():
        assert host.inspect(one)["State"]["Pid"] == pid
        logged = host.ask("GET", f"/containers/{one}/logs", stdout=True, stderr=True)
        assert sorted((logged[:12], logged[12:])) == [b"\1\0\0\0\0\0\0\4out\n", b"\2\0\0\0\0\0\0\4err\n"]
        host.ask("POST", f"/containers/{one}/stop", t=10)
        assert host.wait(one) == 143
        host.remove(one)


def check_the_filter_of_system_calls_is_that_of_the_machine(host: Host) -> None:
    """What the profile denies is denied, also what has another number on x86_64; and all is there without it."""
    attempts = "unshare -U true; echo $?; mount -t tmpfs t /mnt; echo $?"
    with host.daemon():
        outcomes = []
        for options in ({}, {"SecurityOpt": ["seccomp=unconfined"], "CapAdd": ["SYS_ADMIN"]}):
            one = host.begin("sh", "-c", f"mkdir /mnt; {attempts}", Tty=True, HostConfig=options)
            assert host.wait(one) == 0
            said = host.ask("GET", f"/containers/{one}/logs", stdout=True).decode()
            outcomes.append([line for line in said.split("\r\n") if line.isdecimal()])
            host.remove(one)
        assert outcomes[1] == ["0", "0"] and "0" not in outcomes[0] and len(outcomes[0]) == 2, outcomes


def check_networks_names_and_published_ports(host: Host) -> None:
    """Two containers of one network, and a port of this host."""
    with host.daemon():
        host.ask("POST", "/networks/create", {"Name": "shop"})
        ports = {"NetworkMode": "shop", "PortBindings": {"80/tcp": [{"HostPort": "8080"}]}}
        one = host.begin("sh", "-c", ANSWER, name="door", HostConfig=ports)
        host.until(lambda: host.execute(one, "sh", "-c", "netstat -ltn | grep -q :80")[0] == 0)
        with urllib.request.urlopen("http://127.0.0.1:8080/", timeout=20) as answer:
            assert answer.read() == b"there"
        other = host.begin("sleep", "10000", HostConfig={"NetworkMode": "shop"})
        assert host.execute(other, "wget", "-qO-", "http://door/") == (0, "there")
        assert "engine-" in host.run("nft", "list", "tables"), "there is no firewall"
        host.remove(one, other)
        host.ask("DELETE", "/networks/shop")


def check_an_image_is_built_saved_and_loaded(host: Host) -> None:
    """With a step that runs."""
    place = Path("/tmp/build")
    place.mkdir()
    (place / "Dockerfile").write_text(DOCKERFILE)
    with host.daemon():
        host.image()
        host.engine("build", "-t", "made", str(place))
        host.engine("save", "-o", "/tmp/made.tar", "made")
        host.engine("rmi", "made")
        host.engine("load", "-i", "/tmp/made.tar")
        assert host.engine("run", "--rm", "made") == "aarch64\n"


def check_an_engine_that_sleeps_is_woken(host: Host) -> None:
    """By the static program that holds the socket meanwhile."""
    sleeper = subprocess.Popen([sys.executable, "-m", "engine", "listen", "--idle-exit", "1"], cwd=PROJECT)
    try:
        host.until(lambda: os.path.exists(SOCKET))
        host.until(lambda: os.readlink(f"/proc/{sleeper.pid}/exe").endswith("engine-sleeper"))
        for _ in range(2):
            host.until(host.answers)
            host.until(lambda: not Path(f"/proc/{sleeper.pid}/task/{sleeper.pid}/children").read_text())
    finally:
        sleeper.terminate()
        sleeper.wait()

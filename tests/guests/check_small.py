"""A host with little memory: the demo, and a daemon without the C muxer that runs ten containers."""

import json
import os

from tests.guests.inside import Host, read

# A host of this size does without: they take some 20 MB here.
NEEDLESS = (
    *("systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udevd.service"),
    *("systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald.service"),
    "systemd-logind.service",
)
TEN = 10
MB = 1 << 20
# What the engine may take for ten containers, in memory of its own (PSS) with Python's files: the daemon, the spawner,
# and a monitor of 2.6 MB for each container.
MOST = 64 * MB


def check_the_demo_works(host: Host) -> None:
    """However long it takes: the daemon and the client beside it are all that the host does."""
    said = host.engine("demo")
    assert "stream 1: hello from a container" in said and "its directory is gone" in said, said[-2000:]


def check_ten_containers_in_pure_python(host: Host) -> None:
    """They run side by side, each with a limit, answer an exec, and nothing was killed for want of memory."""
    if os.path.isdir("/run/systemd/system"):
        host.run("systemctl", "stop", *NEEDLESS)
    with host.daemon("--muxer", "python"):
        info = host.ask("GET", "/info")
        assert ["Muxer", "python"] in info["DriverStatus"], info["DriverStatus"]
        ones = [host.begin("sleep", "10000", HostConfig={"Memory": 16 * MB, "PidsLimit": 20}) for _ in range(TEN)]
        assert all(host.inspect(one)["State"]["Running"] for one in ones)
        assert host.execute(ones[-1], "echo", "there") == (0, "there\r\n")
        taken, free = memory(host), available()
        print(json.dumps({"engine": taken // MB, "available": free // MB, "total": info["MemTotal"] // MB}), flush=True)
        assert taken < MOST, f"{taken // MB} MB"
        host.remove(*ones)
    assert "Out of memory" not in host.run("dmesg")


def memory(host: Host) -> int:
    """The bytes that all processes of the engine take, as `inspect-processes` tells."""
    rows = host.engine("inspect-processes").splitlines()[1:]
    return sum(int(float(row.split(" MB")[0].split()[-1]) * 1e6) for row in rows)


def available() -> int:
    """MemAvailable in bytes."""
    rows = dict(line.split(":", 1) for line in read("/proc/meminfo").splitlines())
    return int(rows["MemAvailable"].split()[0]) * 1024

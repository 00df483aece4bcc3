"""Limits on whatever cgroups this kernel has: what cannot be kept is a warning in docker's words, and nothing fails."""

import json
from typing import Any

from tests.guests.inside import Host, read

DISK = "/dev/vda"
MB = 1 << 20
DISCARDED = ("iscarded.", "Memory limited without swap.")
# Options of HostConfig, and the row of `engine check` that says whether the host can keep them.
LIMITS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"Memory": 64 * MB}, "memory limit"),
    ({"Memory": 64 * MB, "MemorySwap": -1}, "memory limit"),
    ({"Memory": 64 * MB, "MemorySwap": 96 * MB}, "swap limit"),
    ({"Memory": 64 * MB, "MemoryReservation": 32 * MB}, "memory limit"),
    ({"CpuShares": 512}, "processor shares"),
    ({"CpuQuota": 50_000, "CpuPeriod": 100_000}, "processor time limit"),
    ({"CpusetCpus": "0"}, "processor sets"),
    ({"CpusetMems": "0"}, "processor sets"),
    ({"PidsLimit": 50}, "limit of processes"),
    ({"BlkioWeight": 300}, "block I/O weight"),
    ({"BlkioWeightDevice": [{"Path": DISK, "Weight": 300}]}, "block I/O weight of a disk"),
    ({"BlkioDeviceReadBps": [{"Path": DISK, "Rate": MB}]}, "block I/O rates"),
    ({"BlkioDeviceWriteIOps": [{"Path": DISK, "Rate": 100}]}, "block I/O rates"),
)
# Limits that version 2 has not, and docker discards there.
NOT_IN_VERSION_2 = ({"MemorySwappiness": 10}, {"OomKillDisable": True, "Memory": 64 * MB})
UPDATES = (({"Memory": 96 * MB, "MemorySwap": 128 * MB}, "memory limit"), ({"PidsLimit": 30}, "limit of processes"))


def check_no_limit_fails_a_start(host: Host) -> None:
    """Each is kept without a word, or discarded with docker's warning, as `engine check` has said before."""
    with host.daemon():
        rows = checked(host)
        for options, row in LIMITS:
            warnings = start(host, options)
            discards = [each for each in warnings if each.endswith(DISCARDED)]
            assert bool(discards) is (rows[row] == "missing"), f"{options}: {row} is {rows[row]}, {warnings}"
        for options in NOT_IN_VERSION_2:
            start(host, options)


def check_an_update_warns_too(host: Host) -> None:
    """Of a running container; what can be kept is changed all the same."""
    with host.daemon():
        rows = checked(host)
        one = host.begin("sleep", "10000")
        for options, row in UPDATES:
            warnings = host.ask("POST", f"/containers/{one}/update", options)["Warnings"] or []
            assert any(each.endswith(DISCARDED) for each in warnings) is (rows[row] == "missing"), (options, warnings)
        assert host.inspect(one)["State"]["Running"]
        host.remove(one)


def check_the_figures_and_the_freezer_work(host: Host) -> None:
    """On either version: stats count what there is, top lists, and a paused container stands still."""
    with host.daemon():
        one = host.begin("sleep", "10000")
        assert host.ask("GET", f"/containers/{one}/top")["Processes"]
        figures = host.ask("GET", f"/containers/{one}/stats", stream="false")
        assert figures["cpu_stats"]["cpu_usage"]["total_usage"] > 0, figures
        host.ask("POST", f"/containers/{one}/pause")
        assert host.inspect(one)["State"]["Paused"]
        host.ask("POST", f"/containers/{one}/unpause")
        assert host.execute(one, "sh", "-c", "mknod /x b 254 0 && cat /x")[0] != 0
        host.remove(one)


def check_the_version_is_what_is_mounted(host: Host) -> None:
    """Version 1 where the kernel was told so, with version 2 beside it or without; else version 2."""
    told = "systemd.unified_cgroup_hierarchy=0" in read("/proc/cmdline")
    with host.daemon():
        assert host.ask("GET", "/info")["CgroupVersion"] == ("1" if told else "2")


def start(host: Host, options: dict[str, Any]) -> list[str]:
    """Create and start such a container; the warnings of create."""
    host.image()
    body = {"Image": "busybox", "Cmd": ["sleep", "10000"], "HostConfig": {"NetworkMode": "none", **options}}
    made = host.ask("POST", "/containers/create", body)
    host.ask("POST", f"/containers/{made['Id']}/start")
    assert host.inspect(made["Id"])["State"]["Running"], options
    host.remove(made["Id"])
    return list(made["Warnings"])


def checked(host: Host) -> dict[str, str]:
    """The states of the rows of `engine check`, by name."""
    told = json.loads(host.engine("check", "--json"))
    assert told["ready"], [each for each in told["checks"] if each["state"] == "missing"]
    return {each["name"]: each["state"] for each in told["checks"]}

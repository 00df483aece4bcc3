"""Probes the host's cgroups: their version, which limits a container can have, and what guards devices.

Each probe runs in a child of its own (see `trial`). It makes no cgroup but an empty one, which it removes at once.
"""

import functools
import os

from engine.check.row import MISSING, OK, UNUSED, Check, Found
from engine.daemon.runtime import units
from engine.kernel import userns
from engine.sandbox.cgroups import detection
from engine.settings import cgroups
from engine.settings.every import Settings

_BY_BOOT = "Boot with {} on the kernel's command line, or a kernel with {}"


def _cgroups(_: Settings) -> Found:
    found = detection.detect(units=units.ours)
    if not found.holds_processes:
        mounted = os.path.isdir(found.root) and bool(os.listdir(found.root))
        return Found(
            MISSING, f"none at {found.root} are this user's" if mounted else f"none are mounted at {found.root}"
        )
    # Of a user's own it is known already that they can be written.
    for directory in found.directories(f"engine-check-{os.getpid()}", "/") if userns.is_hosts() else ():
        os.mkdir(directory)
        os.rmdir(directory)
    version = f"version {found.version}{', with version 2 beside it' if found.hybrid else ''}"
    return Found(OK, f"{version}, with {', '.join(sorted(found.controllers))}")


def _owner(settings: Settings) -> Found:
    driver = detection.detect(driver=cgroups.driver(settings.exec_opts), units=units.ours).driver
    runs = "systemd runs this host" if os.path.isdir(detection.BOOTED) else "no systemd runs here"
    return Found(OK, f"{driver}: {runs}")


def _feature(name: str, _: Settings) -> Found:
    found = detection.detect(units=units.ours)
    there = name in found.features
    return Found(OK if there else MISSING, "works" if there else "the kernel does not have it, or it is not mounted")


def _guard(_: Settings) -> Found:
    found = detection.detect(units=units.ours)
    if not found.guards_devices and not userns.is_hosts():
        return Found(OK, "the user namespace, in which nobody can make or open a node")
    if not found.guards_devices:
        return Found(MISSING, "no devices controller" if found.version != "2" else "no programs for devices (bpf)")
    return Found(OK, "the devices controller" if found.version == "1" else "a program of the engine's for each cgroup")


def _freezer(_: Settings) -> Found:
    found = detection.detect(units=units.ours)
    if found.version == "2":
        return Found(OK, "works")
    there = "freezer" in found.controllers
    return Found(OK if there else MISSING, "works" if there else "no freezer controller is mounted")


def _real_time(_: Settings) -> Found:
    found = detection.detect(units=units.ours)
    if "cpu_rt" in found.features:
        return Found(OK, "works")
    return Found(UNUSED, "the kernel schedules no groups in real time; few do")


def _limit(name: str, feature: str, without: str, boot: tuple[str, str]) -> Check:
    return Check(name, functools.partial(_feature, feature), without, _BY_BOOT.format(*boot))


_DISCARDED = "is discarded with a warning."

CHECKS = (
    Check(
        "cgroups",
        _cgroups,
        "Containers have no limits, cannot be paused and are not counted, and get fewer rights (see engine/README.md).",
        "mount -t cgroup2 none /sys/fs/cgroup",
        essential=True,
    ),
    Check("cgroup driver", _owner, "", ""),
    _limit("memory limit", "memory", f"--memory {_DISCARDED}", ("cgroup_enable=memory", "CONFIG_MEMCG")),
    _limit("swap limit", "swap", f"--memory-swap {_DISCARDED}", ("swapaccount=1", "CONFIG_SWAP")),
    _limit(
        "processor time limit",
        "cpu_cfs",
        f"--cpu-quota {_DISCARDED} --cpus is refused.",
        ("cgroup_enable=cpu", "CONFIG_CFS_BANDWIDTH"),
    ),
    _limit(
        "processor shares", "cpu_shares", f"--cpu-shares {_DISCARDED}", ("cgroup_enable=cpu", "CONFIG_FAIR_GROUP_SCHED")
    ),
    _limit("processor sets", "cpuset", f"--cpuset-cpus {_DISCARDED}", ("cgroup_enable=cpuset", "CONFIG_CPUSETS")),
    _limit("limit of processes", "pids", f"--pids-limit {_DISCARDED}", ("cgroup_enable=pids", "CONFIG_CGROUP_PIDS")),
    _limit(
        "block I/O rates",
        "blkio_throttle",
        f"--device-read-bps and the like {_DISCARDED}",
        ("cgroup_enable=blkio", "CONFIG_BLK_DEV_THROTTLING"),
    ),
    Check(
        "block I/O weight",
        functools.partial(_feature, "blkio_weight"),
        f"--blkio-weight {_DISCARDED}",
        "modprobe bfq, and write bfq to /sys/block/DISK/queue/scheduler",
    ),
    Check(
        "block I/O weight of a disk",
        functools.partial(_feature, "blkio_weight_device"),
        f"--blkio-weight-device {_DISCARDED}",
        "As for block I/O weight; or write `MAJOR:MINOR enable=1` to /sys/fs/cgroup/io.cost.qos",
    ),
    Check("real-time scheduling", _real_time, "--cpu-rt-runtime is refused.", ""),
    Check(
        "guard of devices",
        _guard,
        "Containers may not make device nodes, and nodes in their images and volumes do not work.",
        "Boot a kernel with CONFIG_CGROUP_DEVICE and CONFIG_CGROUP_BPF",
    ),
    Check("freezer", _freezer, "Containers cannot be paused.", "mount the freezer controller, or cgroups version 2"),
)

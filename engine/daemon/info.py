"""Collects the facts about the host and the daemon for GET /info.

Runs in a request's thread, which looks each fact up for the answer. Nothing is invented: what this engine does not have
is empty, false or null, even where the API's definition has a key for it.
"""

import os
import socket
import threading
import time

from engine import redact
from engine.daemon import busy
from engine.daemon.clock import rfc3339
from engine.daemon.containers.output.logconfig import DRIVERS
from engine.daemon.containers.security import confinement
from engine.daemon.jsontext import Object
from engine.daemon.measured import timed
from engine.daemon.network.record import LOCAL
from engine.daemon.parts import DaemonParts
from engine.daemon.plugins.activation import NETWORKS, VOLUMES
from engine.kernel import outside, userns
from engine.late import TYPE_CHECKING, late
from engine.literals import INT64, natural
from engine.sandbox.cgroups.hierarchy import Cgroups
from engine.settings import runtimes, storagedriver, whose
from engine.settings.every import Settings

if TYPE_CHECKING:  # loaded by a daemon of a user's own
    from engine.rootless import outward
else:
    outward = late("engine.rootless.outward")

if TYPE_CHECKING:  # loaded on a host that has CDI devices
    from engine.daemon.containers.security import cdispecs
else:
    cdispecs = late("engine.daemon.containers.security.cdispecs")

if TYPE_CHECKING:  # loaded where the daemon is to give labels
    from engine.daemon.containers.security import labels
else:
    labels = late("engine.daemon.containers.security.labels")

if TYPE_CHECKING:  # loaded by the first /info
    from engine.daemon.images.registry import proxies
else:
    proxies = late("engine.daemon.images.registry.proxies")

INDEX_SERVER = "https://index.docker.io/v1/"
FIREWALL = "nftables"
# Clients look for it in the first place to learn that an image may be here for several platforms.
_SNAPSHOTTER = ["driver-type", "io.containerd.snapshotter.v1"]

_FORWARDING = "IPv4Forwarding"
# (key of /info, what the kernel lacks when it is false)
_KERNEL_WARNINGS = (
    ("MemoryLimit", "No memory limit support"),
    ("SwapLimit", "No swap limit support"),
    ("CpuCfsPeriod", "No cpu cfs period support"),
    ("CpuCfsQuota", "No cpu cfs quota support"),
    ("CPUShares", "No cpu shares support"),
    ("CPUSet", "No cpuset support"),
    ("PidsLimit", "No pids limit support"),
    (_FORWARDING, "IPv4 forwarding is disabled"),
)
_NO_CGROUPS = "No cgroups are mounted: containers have no limits and cannot be paused, and nothing is counted"
_NO_GUARD = "No cgroups guard devices: only privileged containers may make device nodes"
_ONE_ID = (
    "Only one user id is mapped: all files of containers belong to one user, and processes run as root alone."
    " newuidmap(1), newgidmap(1) and ids in /etc/subuid and /etc/subgid give more"
)
_NO_PARSER = "AppArmor is enabled, but containers run unconfined: apparmor_parser(8) is not installed"
# key of /info → the kind of limit in `sandbox.cgroups.Cgroups.features`
_CGROUP_FEATURES = {
    "MemoryLimit": "memory",
    "SwapLimit": "swap",
    "CpuCfsPeriod": "cpu_cfs",
    "CpuCfsQuota": "cpu_cfs",
    "CPUShares": "cpu_shares",
    "CPUSet": "cpuset",
    "PidsLimit": "pids",
    "OomKillDisable": "oom_kill_disable",
}


@timed("host_info_functions", "system_info")
def info(engine: DaemonParts) -> Object:
    """The API's SystemInfo, its keys in the order in which dockerd shows them."""
    settings = engine.settings
    release = read_os_release()
    system = os.uname()
    abilities = _abilities(engine.cgroups)
    no_firewall = engine.firewall.missing()
    driver = storagedriver.reported(settings.storage_driver, engine.storage == "copy")
    devices, wrong = cdispecs.found(settings.cdi_spec_dirs) if _has_cdi(settings) else ({}, [])
    return {
        "ID": engine.id,
        **container_counts(engine),
        "Images": engine.images.count(),
        "Driver": driver,
        "DriverStatus": [
            *([] if driver in storagedriver.GRAPH_DRIVERS else [_SNAPSHOTTER]),
            ["Backing Filesystem", filesystem_of(settings.data_root)],
            ["Muxer", engine.muxer],
        ],
        "Plugins": {
            "Volume": ["local", *engine.plugins.used(VOLUMES)],
            "Network": [*LOCAL, *engine.plugins.used(NETWORKS)],
            "Authorization": list(settings.authorization_plugins) or None,
            "Log": sorted(DRIVERS.keys() - {"none"}),
        },
        **abilities,
        "Debug": settings.debug,
        "NFd": len(os.listdir("/proc/self/fd")),
        "NGoroutines": threading.active_count() + len(busy.all_parked()),
        "SystemTime": rfc3339(time.time_ns()),
        "LoggingDriver": settings.log_driver,
        **_cgroups(engine.cgroups),
        "NEventsListener": engine.events.listeners,
        "KernelVersion": system.release,
        "OperatingSystem": release.get("PRETTY_NAME", "Linux"),
        "OSVersion": release.get("VERSION_ID", ""),
        "OSType": "linux",
        "Architecture": system.machine,
        "IndexServerAddress": INDEX_SERVER,
        "RegistryConfig": _registry_config(settings),
        "NCPU": len(os.sched_getaffinity(0)),
        "MemTotal": memory_total(),
        "GenericResources": _resources(settings.node_generic_resources),
        "DockerRootDir": settings.data_root,
        "HttpProxy": redact.proxy(proxies.variable(os.environ, "HTTP_PROXY")),
        "HttpsProxy": redact.proxy(proxies.variable(os.environ, "HTTPS_PROXY")),
        "NoProxy": proxies.variable(os.environ, "NO_PROXY"),
        "Name": socket.gethostname(),
        "Labels": list(settings.labels),
        "ExperimentalBuild": settings.experimental,
        "ServerVersion": settings.report_version,
        "Runtimes": _runtimes(settings),
        "DefaultRuntime": settings.default_runtime,
        "Swarm": {
            "NodeID": "",
            "NodeAddr": "",
            "LocalNodeState": "inactive",
            "ControlAvailable": False,
            "Error": "",
            "RemoteManagers": None,
        },
        "LiveRestoreEnabled": settings.live_restore,
        "Isolation": "",
        "InitBinary": settings.init_path or "docker-init",
        "ContainerdCommit": {"ID": ""},
        "RuncCommit": {"ID": ""},
        "InitCommit": {"ID": ""},
        "SecurityOptions": _security_options(engine.settings),
        **_address_pools(settings),
        "FirewallBackend": _firewall(engine),
        "CDISpecDirs": list(settings.cdi_spec_dirs),
        # dockerd leaves the key out where it has found none.
        **({"DiscoveredDevices": [{"Source": "cdi", "ID": name} for name in devices]} if devices else {}),
        "Containerd": None,
        "Warnings": _warnings(abilities, engine.cgroups, settings, no_firewall) + wrong,
    }


def _runtimes(settings: Settings) -> Object:
    """Every runtime by its name; the engine itself is no program."""
    shown: Object = {runtimes.STOCK: {"path": ""}}
    for name, (program, *arguments) in runtimes.programs(settings.runtimes).items():
        shown[name] = {"path": program, **({"runtimeArgs": arguments} if arguments else {})}
    return shown


def _has_cdi(settings: Settings) -> bool:
    return any(map(os.path.isdir, settings.cdi_spec_dirs))


def _cgroups(cgroups: Cgroups) -> dict[str, str]:
    """Docker's words for a host without cgroups: the driver `none`, and no version."""
    if not cgroups.holds_processes:
        return {"CgroupDriver": "none"}
    return {"CgroupDriver": cgroups.driver, "CgroupVersion": cgroups.version}


def _warnings(abilities: dict[str, bool], cgroups: Cgroups, settings: Settings, no_firewall: str) -> list[str]:
    # Forwarding is no warning if the engine may switch it on: it does so with the first network that needs it.
    texts = [
        text for key, text in _KERNEL_WARNINGS if not abilities[key] and (key != _FORWARDING or not settings.ip_forward)
    ]
    if not cgroups.holds_processes:
        texts.append(_NO_CGROUPS)
    if not cgroups.guards_devices and userns.is_hosts():
        texts.append(_NO_GUARD)
    if confinement.kernel_has() and not confinement.confines():
        texts.append(_NO_PARSER)
    if userns.ids() == 1:
        texts.append(_ONE_ID)
    if not outside.is_here() and outward.program() is None:
        texts.append(outward.LACKING)
    if no_firewall:
        texts.append(no_firewall)
    return [f"WARNING: {text}" for text in texts]


def _address_pools(settings: Settings) -> dict[str, list[Object]]:
    """The address pools of the daemon's settings; docker does not show its built-in ones either."""
    pools = [text.rpartition(",") for text in settings.default_address_pools]
    return {"DefaultAddressPools": [{"Base": base, "Size": int(size)} for base, _, size in pools]} if pools else {}


def _firewall(engine: DaemonParts) -> Object | None:
    """The firewall that keeps networks apart, and its table; None where there can be no rules."""
    if not engine.firewall.families():
        return None
    proxy = "true" if engine.settings.userland_proxy else "false"
    return {
        "Driver": FIREWALL,
        "Info": [["Table", f"inet {engine.firewall.table}"], ["EnableUserlandProxy", proxy]],
    }


def container_counts(engine: DaemonParts) -> dict[str, int]:
    """How many containers there are, and in which states, by the keys of GET /info."""
    states = [container.snapshot() for container in engine.containers.all()]
    running = sum(state.status == "running" for state in states)
    paused = sum(state.status == "paused" for state in states)
    return {
        "Containers": len(states),
        "ContainersRunning": running,
        "ContainersPaused": paused,
        "ContainersStopped": len(states) - running - paused,
    }


def _abilities(cgroups: Cgroups) -> dict[str, bool]:
    """Which limits the kernel supports, and whether it forwards IPv4."""
    abilities = {key: feature in cgroups.features for key, feature in _CGROUP_FEATURES.items()}
    abilities[_FORWARDING] = _read("/proc/sys/net/ipv4/ip_forward").strip() == "1"
    return abilities


def _registry_config(settings: Settings) -> Object:
    insecure = settings.insecure_registries
    official = {"Name": "docker.io", "Mirrors": list(settings.registry_mirrors), "Secure": True, "Official": True}
    others = {
        name: {"Name": name, "Mirrors": [], "Secure": False, "Official": False} for name in insecure if "/" not in name
    }
    return {
        "InsecureRegistryCIDRs": ["::1/128", "127.0.0.0/8", *(block for block in insecure if "/" in block)],
        "IndexConfigs": {"docker.io": official, **others},
        "Mirrors": list(settings.registry_mirrors),
    }


def _security_options(settings: Settings) -> list[str]:
    options = ["name=apparmor"] if confinement.confines() else []
    if "\nSeccomp:" in _read("/proc/self/status"):
        options.append(f"name=seccomp,profile={settings.seccomp_profile}")
    if settings.selinux_enabled and labels.kernel_has():
        options.append("name=selinux")
    if settings.userns_remap:
        options.append("name=userns")
    if whose.owner(os.environ, os.geteuid()):
        options.append("name=rootless")
    if os.path.exists("/proc/self/ns/cgroup"):
        options.append("name=cgroupns")
    if settings.no_new_privileges:
        options.append("name=no-new-privileges")
    return options


def _resources(texts: tuple[str, ...]) -> list[Object] | None:
    """The host's generic resources: a number of which some are there, or one by its name, in the API's two shapes."""
    return [_resource(*text.split("=", 1)) for text in texts] or None


def _resource(kind: str, value: str) -> Object:
    number = natural(value, INT64[1])
    if number is None:
        return {"NamedResourceSpec": {"Kind": kind, "Value": value}}
    return {"DiscreteResourceSpec": {"Kind": kind, "Value": number}}


def read_os_release() -> dict[str, str]:
    """The variables in os-release(5); empty where the host has no such file."""
    text = _read("/etc/os-release") or _read("/usr/lib/os-release")
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def memory_total() -> int:
    """The host's memory in bytes (proc_meminfo(5) counts in KiB); 0 where it is unknown."""
    for line in _read("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * 1024
    return 0


def filesystem_of(path: str) -> str:
    """The type of the file system that holds a path, or `unknown`; from proc_pid_mountinfo(5)."""
    path = os.path.realpath(path)
    best, kind = -1, "unknown"
    for line in _read("/proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(" - ")
        point = fields.split()[4].replace("\\040", " ")
        above = path == point or path.startswith(point.rstrip("/") + "/")
        if above and len(point) >= best:  # of two mounts at one point the later one is visible
            best, kind = len(point), rest.split()[0]
    return kind


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""  # a kernel or host without this file is no error: the fact is unknown

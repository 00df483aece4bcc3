"""From a container's configuration to the plain data its sandbox is built from.

Runs in the API's threads at each start. It decides nothing that create has not checked; it only translates: the API's
words to `sandbox.spec`'s.
"""

import contextlib
import os
import shutil

from engine.daemon.containers import files, logconfig, paths
from engine.daemon.containers.record import Container
from engine.sandbox import capabilities, mounts, seccomp, sysctls
from engine.sandbox.spec import Limits, Mount, Rlimit, Root, Sandbox
from engine.wire.messages import LogTarget

_OWN_NAMESPACES = ("mount", "pid", "uts", "ipc", "cgroup")
# Docker's for a network of one's own, as far as this kernel has them.
_NETWORK_SYSCTLS = tuple(
    (name, value) for name, value in sysctls.DEFAULT if os.path.exists(f"/proc/sys/{name.replace('.', '/')}")
)
_DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sandbox_of(engine: object, container: Container, where: paths.Paths) -> Sandbox:
    """The sandbox of one run."""
    config, host_config = container.config, container.host_config
    own_network = host_config["NetworkMode"] != "host"
    capability_names = capabilities.effective(host_config["CapAdd"], host_config["CapDrop"])
    return Sandbox(
        id=container.id,
        root=_root(engine, container, where),
        namespaces=(*_OWN_NAMESPACES, "net") if own_network else _OWN_NAMESPACES,
        argv=(container.path, *container.args),
        env=_environment(config),
        cwd=config["WorkingDir"] or "/",
        user=config["User"],
        groups=tuple(host_config["GroupAdd"] or ()),
        hostname=config["Hostname"],
        domainname=config["Domainname"],
        mounts=(*mounts.default_mounts(host_config["ShmSize"]), *_etc_mounts(where)),
        devices=mounts.DEFAULT_DEVICES,
        masked_paths=tuple(host_config["MaskedPaths"]),
        readonly_paths=tuple(host_config["ReadonlyPaths"]),
        capabilities=capability_names,
        seccomp=seccomp.default_profile(capability_names),
        rlimits=tuple(Rlimit(each["Name"], each["Soft"], each["Hard"]) for each in host_config["Ulimits"] or ()),
        sysctls=_NETWORK_SYSCTLS if own_network else (),
        tty=config["Tty"],
        rows=host_config["ConsoleSize"][0],
        columns=host_config["ConsoleSize"][1],
        cgroups=engine.cgroups.entries(container.id),
    )


def _root(engine: object, container: Container, where: paths.Paths) -> Root:
    base = engine.images.layer_root
    readonly = container.host_config["ReadonlyRootfs"]
    if engine.storage == "overlayfs":
        return Root(base, container.layers, where.upper, where.work, readonly)
    return Root(base, (), where.upper, "", readonly)


def _environment(config: dict) -> tuple[str, ...]:
    """The container's variables, in docker's order: PATH, HOSTNAME, TERM of a terminal, then what was asked."""
    asked = config["Env"] or ()
    names = {each.partition("=")[0] for each in asked}
    given = [_DEFAULT_PATH, f"HOSTNAME={config['Hostname']}", *(["TERM=xterm"] if config["Tty"] else [])]
    return (
        *(each for each in given if each.partition("=")[0] not in names),
        *(each for each in asked if "=" in each),  # a name alone takes the variable away
    )


def _etc_mounts(where: paths.Paths) -> tuple[Mount, ...]:
    return tuple(Mount("bind", where.etc(name), f"/etc/{name}", propagation="rprivate") for name in files.NAMES)


def limits_of(container: Container) -> Limits:
    """What the container's cgroup allows."""
    asked = container.host_config
    return Limits(
        memory=asked["Memory"],
        memory_swap=asked["MemorySwap"],
        memory_reservation=asked["MemoryReservation"],
        cpu_shares=asked["CpuShares"],
        cpu_period=asked["CpuPeriod"],
        cpu_quota=asked["CpuQuota"],
        nano_cpus=asked["NanoCpus"],
        cpuset_cpus=asked["CpusetCpus"],
        cpuset_mems=asked["CpusetMems"],
        pids=max(asked["PidsLimit"] or 0, 0),
    )


def log_of(container: Container, where: paths.Paths) -> LogTarget:
    """Where the container's output goes."""
    log_config = container.host_config["LogConfig"]
    if log_config["Type"] == "none":
        return LogTarget("")
    max_size, max_files = logconfig.limits(log_config)
    return LogTarget(where.log, max_size, max_files)


def make_root(engine: object, container: Container, where: paths.Paths) -> None:
    """Make the writable directory of the container's root, which its runs share. Raises OSError.

    `where.upper` comes last and whole: where it is, nothing is left to be made.
    """
    if engine.storage == "overlayfs":
        os.makedirs(where.work, 0o700, exist_ok=True)
        os.mkdir(where.upper, 0o755)
        return
    with contextlib.suppress(FileNotFoundError):  # there only after a copy that was cut off
        shutil.rmtree(where.work)
    os.mkdir(where.work, 0o755)
    engine.images.copy_layers(container.layers, where.work)
    os.rename(where.work, where.upper)

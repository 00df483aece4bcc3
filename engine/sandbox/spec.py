"""The data classes that describe a container's sandbox: the daemon fills them in, and `init` builds the sandbox.

Pure data, no system call. Every field is JSON-representable (bytes travel as base64, see `wire.codec`). Paths in
`Sandbox` and `Mount.target` are paths inside the container unless their docstring says host.
"""

from engine.dataclass import dataclass

LARGEST_SIDE = 0xFFFF
"""Rows or columns of a terminal (struct winsize)."""


@dataclass(frozen=True, slots=True)
class Root:
    """The root filesystem.

    layers: host paths of the unpacked layers below `base`, relative to it, lowest first; empty for a plain root
    base: host path the relative paths start from (kept short: an overlay's options must fit one page)
    upper: host path, the writable directory of the overlay; or, when `layers` is empty, the plain root itself
    work: host path, the overlay's work directory; empty for a plain root
    readonly: mount the root read-only once everything in it is in place
    nodev: no device node in it can be opened
    label: the SELinux label of all files in it, and in the mounts that every container has; empty for none
    userxattr: the overlay's own attributes are those that users may set, as in a user namespace
    """

    base: str
    layers: tuple[str, ...]
    upper: str
    work: str
    readonly: bool = False
    nodev: bool = False
    label: str = ""
    userxattr: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount inside the container, made in the order given.

    kind: file-system type (`proc`, `sysfs`, `tmpfs`, `devpts`, `mqueue`, ...), `bind`, or `image`: the layers in
        `data`, read-only; with the flag `userxattr` as for `Root`
    source: host path for `bind`, the directory of all layers for `image`, else the device name shown in mountinfo
    target: absolute path in the container; missing parts are made, symbolic links never lead out of the root
    flags: names of MS_* flags in lower case (`nosuid`, `noexec`, `nodev`, `ro`, `rbind`, ...); `rro`: this mount and
        all below it read-only; `idmap`: its files have the ids of the container's user namespace, if that has one
    data: the file system's own options, as for mount(2); of an `image` the names of its layers, lowest first, separated
        by `:`
    propagation: `private`, `rprivate`, `slave`, `rslave`, `shared`, `rshared`, or empty for rprivate
    subpath: the part of it to show, empty for all: a relative path that may not lead out of it, nor may its symbolic
        links; with a leading slash a path whose links are followed as if that root were "/"
    asked: the client asked for it by name, so it is kept out of /proc, and its source is looked up on the host as the
        host is now
    place: host directory to mount on for a moment, where it is not mounted on the target at once
    holder: (pid, start time, path) of a process that has this very file system at that path of its root: it is shared
        with that process instead of being mounted anew; empty where there is none
    """

    kind: str
    source: str
    target: str
    flags: tuple[str, ...] = ()
    data: str = ""
    propagation: str = ""
    subpath: str = ""
    asked: bool = False
    place: str = ""
    holder: tuple[int, int, str] | tuple[()] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device node in the container: kind `c` or `b`, numbers, permission bits and owner.

    source: host path of its node, which is shown where no node can be made; empty where that is `path` too
    """

    path: str
    kind: str
    major: int
    minor: int
    mode: int = 0o666
    uid: int = 0
    gid: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Rlimit:
    """One resource limit (setrlimit(2)); `name` as in docker: `nofile`, `nproc`, ...; -1 is unlimited."""

    name: str
    soft: int
    hard: int


@dataclass(frozen=True, slots=True)
class Hook:
    """A program that is to be run at one point of a container's life (see `birth.hooks`). timeout: seconds, 0 for none

    env: `NAME=value` each, and nothing else
    """

    point: str
    path: str
    args: tuple[str, ...]
    env: tuple[str, ...]
    timeout: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What the cgroup allows; 0 or an empty text is "no limit asked for". Units as in the API's Resources.

    memory_swappiness: None is "not asked for", since 0 has a meaning
    blkio_*: (`major:minor`, value) pairs
    """

    memory: int = 0
    memory_swap: int = 0
    memory_reservation: int = 0
    cpu_shares: int = 0
    cpu_period: int = 0
    cpu_quota: int = 0
    nano_cpus: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    pids: int = 0
    cpu_rt_period: int = 0
    cpu_rt_runtime: int = 0
    memory_swappiness: int | None = None
    oom_kill_disable: bool = False
    blkio_weight: int = 0
    blkio_weight_device: tuple[tuple[str, int], ...] = ()
    blkio_read_bps: tuple[tuple[str, int], ...] = ()
    blkio_write_bps: tuple[tuple[str, int], ...] = ()
    blkio_read_iops: tuple[tuple[str, int], ...] = ()
    blkio_write_iops: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Everything `init` needs to turn a fresh fork into a container's process 1.

    namespaces: which to make new: any of `mount`, `pid`, `uts`, `ipc`, `net`, `cgroup`, `user`; one that is missing
        here is shared with the host
    argv, env: the command and its environment; argv[0] is searched along PATH of env inside the root
    cwd: made, with its parents, where it is missing
    user: as in the API: empty, `name`, `uid`, `name:group`, `uid:gid`, ...; looked up in the image's files
    groups: additional supplementary groups, names or numbers
    capabilities: the bounding, effective and permitted sets, names such as `CAP_CHOWN`
    seccomp: an assembled BPF program (struct sock_filter array); empty for none
    seccomp_flags: SECCOMP_FILTER_FLAG_*
    tty: make a pty from the container's own devpts its controlling terminal
    rows, columns: the terminal's first size, each LARGEST_SIDE at most; 0 leaves the kernel's
    joined: (namespace, pid, start time) of processes whose namespace this one enters, instead of making one; a PID
        namespace was entered by init's parent before the fork
    apparmor: the profile to run under; empty for the one the engine runs under
    label: the SELinux label of its processes; empty for the one that the policy gives them
    runtime: of a container that another OCI runtime makes: host path of the directory for its bundle, host path of the
        runtime's program, and that program's first arguments; empty for one that this engine makes
    config: then the runtime's config.json, without the user (see `birth.viaruntime`); of a further process in a
        container that has a kernel of its own, the process for the runtime's exec (see `birth.joinviaruntime`)
    hooks: to be run by init, which then writes `config` into the directory `bundle` (a host path) for them
    uids, gids: the maps of a new user namespace: (first id inside, first id on the host, how many) of each range
    cgroups: host paths of the files to write "0" into, which moves process 1 into its cgroups (see `sandbox.cgroups`);
        empty when another process moves it, or none does
    """

    id: str
    root: Root
    namespaces: tuple[str, ...]
    argv: tuple[str, ...]
    env: tuple[str, ...]
    cwd: str = "/"
    user: str = ""
    groups: tuple[str, ...] = ()
    hostname: str = ""
    domainname: str = ""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    masked_paths: tuple[str, ...] = ()
    readonly_paths: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    seccomp: bytes = b""
    rlimits: tuple[Rlimit, ...] = ()
    sysctls: tuple[tuple[str, str], ...] = ()
    oom_score_adj: int | None = None
    umask: int = 0o022
    tty: bool = False
    rows: int = 0
    columns: int = 0
    cgroups: tuple[str, ...] = ()
    joined: tuple[tuple[str, int, int], ...] = ()
    apparmor: str = ""
    seccomp_flags: int = 0
    label: str = ""
    runtime: tuple[str, ...] = ()
    config: str = ""
    uids: tuple[tuple[int, int, int], ...] = ()
    gids: tuple[tuple[int, int, int], ...] = ()
    hooks: tuple[Hook, ...] = ()
    bundle: str = ""

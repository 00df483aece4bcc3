"""The SELinux labels of containers: whether they get any, which ones, and which files of the host get them.

Runs in the daemon's request threads. A daemon gives labels when it was started with `--selinux-enabled`, on a host
whose kernel has SELinux. The host's policy says of which type a container's processes and files are (the file
`lxc_contexts`, which all engines read). Two containers of that type are kept apart by the two categories in their
level, so no two containers have the same ones. `sandbox.selinux` applies the labels.
"""

import os
import struct
from collections.abc import Iterable

from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import MountPoint
from engine.daemon.parts import SecurityParts
from engine.dataclass import dataclass, replace
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.sandbox import selinux
from engine.sandbox.spec import Mount
from engine.settings.every import Settings

ENFORCE = "/sys/fs/selinux/enforce"
"""The file in which the kernel shows whether it enforces the policy; there is none without SELinux."""
CONFIG = "/etc/selinux/config"

_CATEGORIES = 1024
_PAIR = struct.Struct("=HH")
_UNLABELLED = "c1022,c1023"  # the categories of the files of a container whose processes have no label
_PARTS = ("user", "role", "type", "level")
_USUAL_PROCESS = "system_u:system_r:container_t:s0"
_USUAL_FILE = "system_u:object_r:container_file_t:s0"
# What a mistaken `:z` must not take from the host: a relabelled /usr is a host that does not boot.
_KEPT = frozenset(
    [
        *("/", "/bin", "/boot", "/dev", "/etc", "/etc/passwd", "/etc/pki", "/etc/shadow", "/home", "/lib", "/lib64"),
        *("/media", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/system", "/tmp", "/usr", "/var"),
        *("/var/lib", "/var/log"),
    ]
)


@dataclass(frozen=True, slots=True)
class Label:
    """A label in its four parts; level: `s0`, `s0:c1,c2`, ..."""

    user: str
    role: str
    type: str
    level: str

    def __str__(self) -> str:
        return f"{self.user}:{self.role}:{self.type}:{self.level}"


def kernel_has() -> bool:
    """Whether SELinux is on in this kernel."""
    return os.path.exists(ENFORCE)


def given(settings: Settings) -> bool:
    """Whether this daemon gives its containers labels."""
    return settings.selinux_enabled and kernel_has()


def check(asked: Iterable[str]) -> None:
    """Refuse an option of `--security-opt label=` that docker does not know. Raises Invalid."""
    for option in asked:
        name, sign, _ = option.partition(":")
        if option != "disable" and (not sign or name not in (*_PARTS, "filetype")):
            raise Invalid(
                f"Bad label option {option!r}, valid options 'disable' or\n'user, role, level, type, filetype'"
                " followed by ':' and a value"
            )


def made(engine: SecurityParts, asked: Iterable[str]) -> tuple[str, str]:
    """The labels of a new container's processes and files; the first is empty where it was asked to have none.

    asked: the values of `--security-opt label=`. Both are empty where this daemon gives none. Raises Invalid.
    """
    if not given(engine.settings):
        return "", ""
    asked = tuple(asked)
    check(asked)
    process, file = host_labels()
    if "disable" in asked:
        return "", str(replace(file, level=f"{file.level.partition(':')[0]}:{_UNLABELLED}"))
    wanted = dict(option.split(":", 1) for option in asked)
    of_file = {"type": wanted.pop("filetype", file.type)}
    of_file |= {part: wanted[part] for part in ("user", "level") if part in wanted}
    if "level" not in wanted:
        sensitivity = process.level.partition(":")[0]
        wanted["level"] = of_file["level"] = f"{sensitivity}:{_free_categories(engine)}"
    return str(replace(process, **wanted)), str(replace(file, **of_file))


def asked_by(container: Container) -> list[str]:
    """The options that give another container the same label as this one has, for a namespace that the two share."""
    if not container.process_label:
        return []
    return [f"label={part}:{value}" for part, value in zip(_PARTS, container.process_label.split(":", 3), strict=True)]


def host_labels() -> tuple[Label, Label]:
    """The labels, without categories, that the host's policy has for a container's processes and files."""
    policy = _setting(CONFIG, "SELINUXTYPE") or "targeted"
    contexts = os.path.join(os.path.dirname(CONFIG), policy, "contexts/lxc_contexts")
    process, file = _setting(contexts, "process"), _setting(contexts, "file")
    return Label(*(process or _USUAL_PROCESS).split(":", 3)), Label(*(file or _USUAL_FILE).split(":", 3))


def mounted(container: Container, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """The mounts of a run, those that are the container's own with its label.

    A volume's tmpfs is not: containers with different labels may share it.
    """
    label = container.file_label
    if not label:
        return mounts
    return tuple(
        replace(mount, data=selinux.mount_options(mount.data, label))
        if mount.kind in selinux.LABELLED and not mount.place
        else mount
        for mount in mounts
    )


def give(container: Container, own: Iterable[str], shared: bool) -> None:
    """Label the files of the host that a run is to use, where the container has labels. Raises SystemFailure.

    own: files that the engine has made; shared: for another container too. The source of a mount is labelled where the
        mode of the mount has `z` (for all containers) or `Z` (for this one)
    """
    if not container.file_label:
        return
    for path in own:
        _relabel(container, os.path.realpath(path), shared)
    for point in container.mounts:
        _give_source(container, point)


def _give_source(container: Container, point: MountPoint) -> None:
    modes = {"z", "Z"}.intersection(point["Mode"].split(","))
    if not modes:
        return
    source = os.path.realpath(point["Source"])
    if source in _KEPT:
        raise SystemFailure(f"SELinux relabeling of {source} is not allowed")
    _relabel(container, source, "z" in modes)


def _relabel(container: Container, path: str, shared: bool) -> None:
    label = Label(*container.file_label.split(":", 3))
    if shared:
        label = replace(label, level=label.level.partition(":")[0])
    try:
        selinux.relabel(path, str(label))
    except OSError as error:
        reason = reasons.of(error)
        raise SystemFailure(f"error setting label on mount source '{path}': {reason}") from error


def _free_categories(engine: SecurityParts) -> str:
    """Two categories, in order, that no other container of this daemon has."""
    taken = {container.file_label.rpartition(":")[2] for container in engine.containers.all()}
    taken.add(_UNLABELLED)
    while True:
        low, high = sorted(number % _CATEGORIES for number in _PAIR.unpack(os.urandom(_PAIR.size)))
        made = f"c{low},c{high}"
        if low != high and made not in taken:
            return made


def _setting(path: str, name: str) -> str:
    """A value of a file of `NAME = "VALUE"` lines; empty where it has none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                key, sign, value = line.partition("=")
                if sign and key.strip() == name:
                    return value.strip().strip('"')
    except OSError:  # the host has no such policy
        pass
    return ""

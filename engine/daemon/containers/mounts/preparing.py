"""Turn a container's mount points into the mounts that init makes, at each start.

Runs in the daemon's request threads. A bind's source that the request wants made is made here. The host's mount table
tells whether a source is shared, as its propagation may need. The daemon mounts nothing.
"""

import contextlib
import errno
import functools
import os
import re

from engine.daemon.containers import paths
from engine.daemon.containers.mounts import answering, borrowing, requests
from engine.daemon.containers.record import Container
from engine.daemon.containers.shapes import MountPoint
from engine.daemon.images.layers.storage import OVERLAY
from engine.daemon.parts import ContentParts, MountParts
from engine.daemon.tar.trees import remove_path
from engine.daemon.volumes import options as driver_options
from engine.errors import NotFound, SystemFailure
from engine.kernel import reasons, syscalls
from engine.late import TYPE_CHECKING, late
from engine.sandbox.spec import Mount

if TYPE_CHECKING:  # loaded where containers have user namespaces
    from engine.daemon.containers.security import remapping
else:
    remapping = late("engine.daemon.containers.security.remapping")

_SHARED = frozenset({"shared", "rshared"})
_SLAVE = frozenset({"slave", "rslave"})
_ESCAPED = re.compile(r"\\([0-7]{3})")
# The mounts that stay writable in a container whose root is read-only.
_ALWAYS_WRITABLE = frozenset({"/proc", "/dev/pts", "/dev/shm", "/dev/mqueue", "/dev"})


def arrange(
    engine: MountParts, container: Container, usual: tuple[Mount, ...], etc: tuple[Mount, ...]
) -> tuple[Mount, ...]:
    """All mounts of a run, in docker's order: the usual ones first, then by the depth of the path.

    usual: the mounts of every container; etc: the engine's files for /etc. A mount that the client asks for replaces
        one of these at the same path. What plugins have mounted, the caller gives back by `borrowing.end`, also after a
        failure. Raises SystemFailure, NotFound for a volume that is gone.
    """
    readonly = container.host_config["ReadonlyRootfs"]
    if not (container.mounts or container.host_config["Tmpfs"]):
        return (*usual, *etc) if not readonly else (*_readonly(usual), *_readonly(etc))
    asked = sandbox_mounts(engine, container, borrowing.begin(engine, container))
    targets = {mount.target for mount in asked}
    no_dev = "/dev" in targets
    kept = [
        mount for mount in usual if mount.target not in targets and not (no_dev and mount.target.startswith("/dev/"))
    ]
    own = [mount for mount in etc if mount.target not in targets]
    if readonly:
        kept, own = _readonly(kept), _readonly(own)
    return (*kept, *sorted((*asked, *own), key=_depth))


def brings_dev(container: Container) -> bool:
    """Whether the client binds a /dev of its own, in which no device node is made (runc's rule)."""
    return any(point["Destination"] == "/dev" and point["Type"] != "tmpfs" for point in container.mounts)


def _depth(mount: Mount) -> int:
    return mount.target.count("/")


def _readonly(mounts: tuple[Mount, ...] | list[Mount]) -> list[Mount]:
    return [
        mount
        if mount.target in _ALWAYS_WRITABLE or "ro" in mount.flags
        else Mount(mount.kind, mount.source, mount.target, (*mount.flags, "ro"), mount.data, mount.propagation)
        for mount in mounts
    ]


def sandbox_mounts(engine: MountParts, container: Container, lent: borrowing.Lent) -> tuple[Mount, ...]:
    """The mounts that the client asked for, in docker's order. Makes sources of binds where the request wants that.

    lent: what plugins have mounted for it. Raises SystemFailure, NotFound for a volume that is gone.
    """
    tmpfs = container.host_config["Tmpfs"] or {}
    made = [_tmpfs(requests.clean(target), text) for target, text in tmpfs.items()]
    taken = {mount.target for mount in made}
    for point in container.mounts:
        if (
            point["Destination"] in taken and point["Type"] != "tmpfs"
        ):  # of two file systems in memory the later is seen
            continue
        if point["Destination"] in lent:
            made.append(_of_lent(point, lent[point["Destination"]]))
        else:
            made.append(_MAKERS[point["Type"]](engine, container, point))
    return tuple(sorted(made, key=_depth))


def _tmpfs(target: str, text: str) -> Mount:
    flags, data, propagation = requests.tmpfs_options(text)
    return Mount("tmpfs", "tmpfs", target, flags, data, propagation, asked=True)


def _of_tmpfs(_engine: MountParts, _container: Container, point: MountPoint) -> Mount:
    return _tmpfs(point["Destination"], point["Spec"]["Data"])


def _of_bind(engine: MountParts, container: Container, point: MountPoint) -> Mount:
    spec, source = point["Spec"], point["Source"]
    propagation = point["Propagation"]
    if spec.get("CreateMountpoint") or propagation in _SHARED | _SLAVE:
        owner = (0, 0)
        if engine.settings.userns_remap:
            owner = remapping.owner(engine.settings, container.host_config, source)
        propagation = answering.asked(source, functools.partial(_look_at_source, point, owner))
    return Mount("bind", source, point["Destination"], _bind_flags(point), propagation=propagation, asked=True)


def _look_at_source(point: MountPoint, owner: tuple[int, int]) -> str:
    """Make the source of a bind, if the request wants that; return the propagation that the bind gets.

    owner: of the directories that are made
    """
    if point["Spec"].get("CreateMountpoint"):
        _make_source(point["Source"], owner)
    return _propagation(point)


def _make_source(source: str, owner: tuple[int, int]) -> None:
    if os.path.exists(source):
        return
    missing = [source]
    while not os.path.lexists(above := os.path.dirname(missing[-1])):
        missing.append(above)
    try:
        for each in reversed(missing):
            try:
                os.mkdir(each, 0o755)
            except FileExistsError:
                if not os.path.exists(each):  # a link to nothing
                    raise
                continue
            if owner != (0, 0):
                os.chown(each, *owner, follow_symlinks=False)
    except NotADirectoryError:
        return  # init finds the same and raises the error
    except OSError as error:
        reason = reasons.of(error)
        text = f"error while creating mount source path '{source}': mkdir {source}: {reason}"
        raise SystemFailure(text) from error


def _bind_flags(point: MountPoint) -> tuple[str, ...]:
    spec = point["Spec"]
    depth = "bind" if spec.get("NonRecursive") else "rbind"
    if point["RW"]:
        return (depth,)
    if not spec.get("ReadOnlyNonRecursive"):
        if not _has_mount_attributes() and spec.get("ReadOnlyForceRecursive"):
            raise SystemFailure("rro is not supported by this kernel: it has no mount_setattr(2)")
        return (depth, "rro" if _has_mount_attributes() else "ro")
    if spec.get("ReadOnlyForceRecursive"):
        raise SystemFailure("mount options conflict: ReadOnlyNonRecursive && ReadOnlyForceRecursive")
    return (depth, "ro")


@functools.cache
def _has_mount_attributes() -> bool:
    """Whether the kernel has mount_setattr(2), Linux 5.12."""
    try:
        syscalls.mount_setattr(-1, 0, syscalls.MOUNT_ATTR_RDONLY)
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


def _of_volume(engine: MountParts, container: Container, point: MountPoint) -> Mount:
    volume = engine.volumes.get(point["Name"])
    try:
        engine.volumes.mend(volume)
    except OSError as error:
        raise SystemFailure(f"error while mounting volume '{volume.path}': {reasons.whole(error)}") from error
    subpath, target = point["Spec"].get("Subpath", ""), point["Destination"]
    readonly = () if point["RW"] else ("rro",)
    mounting = driver_options.mounting(volume.options)
    if mounting is None:
        return Mount("bind", volume.path, target, ("rbind", *readonly), subpath=subpath, asked=True)
    if mounting.kind == "bind":
        flags = dict.fromkeys((*mounting.flags, *readonly))
        if not answering.asked(mounting.device, functools.partial(os.path.exists, mounting.device)):
            text = f"mount {mounting.device}:{volume.path}, flags: 0x1000: no such file or directory"
            raise SystemFailure(f"error while mounting volume '{volume.path}': failed to mount local volume: {text}")
        return Mount("bind", mounting.device, target, tuple(flags), subpath=subpath, asked=True)
    return Mount(
        mounting.kind,
        mounting.device,
        target,
        (*mounting.flags, *readonly),
        mounting.data,
        subpath=subpath,
        asked=True,
        place=volume.path,
        holder=_holder(engine, container, volume.name) if mounting.kind == "tmpfs" else (),
    )


def _of_lent(point: MountPoint, path: str) -> Mount:
    point["Source"] = path  # as inspect shows it
    flags = ("rbind",) if point["RW"] else ("rbind", "rro")
    return Mount("bind", path, point["Destination"], flags, subpath=point["Spec"].get("Subpath", ""), asked=True)


def _holder(engine: MountParts, container: Container, name: str) -> tuple[int, int, str] | tuple[()]:
    """(pid, start time, path) of a running container with the whole of this tmpfs volume; empty without one.

    A tmpfs is in memory, so a second mount would not show the same files.
    """
    for other in engine.containers.all():
        for point in other.mounts:
            if point["Name"] == name and point["Type"] == "volume" and not point["Spec"].get("Subpath"):
                state = other.snapshot()
                if other is not container and state.pid:
                    return (state.pid, state.pid_start, point["Destination"])
    return ()


def _of_image(engine: MountParts, container: Container, point: MountPoint) -> Mount:
    spec = point["Spec"]
    if engine.storage != OVERLAY:
        return copy_of_image(engine, container, point)
    root = engine.images.layer_root
    return Mount(
        "image",
        root,
        point["Destination"],
        ("rro", "userxattr") if engine.images.userxattr else ("rro",),
        ":".join(spec["Layers"]),
        subpath=spec.get("Subpath", ""),
        asked=True,
        place=root,
    )


def copy_of_image(engine: ContentParts, container: Container, point: MountPoint) -> Mount:
    """The image's root as a directory of the container's own, copied once: where the storage is `copy`."""
    spec = point["Spec"]
    home = paths.of(engine.settings.data_root, engine.settings.exec_root, container.id).home
    copy = os.path.join(home, "images", spec["Image"].removeprefix("sha256:"))
    try:
        if not os.path.isdir(copy):
            with contextlib.suppress(FileNotFoundError):  # it exists only after a copy that was cut off
                remove_path(f"{copy}.part")
            os.makedirs(f"{copy}.part", 0o755)
            engine.images.copy_layers(spec["Layers"], f"{copy}.part")
            os.rename(f"{copy}.part", copy)
    except OSError as error:
        raise SystemFailure(f"the image {point['Name']} cannot be copied: {reasons.whole(error)}") from error
    return Mount("bind", copy, point["Destination"], ("rbind", "rro"), subpath=spec.get("Subpath", ""), asked=True)


_MAKERS = {"bind": _of_bind, "volume": _of_volume, "tmpfs": _of_tmpfs, "image": _of_image}


# Propagation


def _propagation(point: MountPoint) -> str:
    """The bind's propagation, after its source was checked as dockerd does. Raises SystemFailure."""
    wanted, source = point["Propagation"], point["Source"]
    if wanted not in _SHARED | _SLAVE:
        return wanted
    place, options = source_mount(os.path.realpath(source), _mountinfo())
    shared = any(option.startswith("shared:") for option in options)
    if wanted in _SHARED:
        if not shared:
            raise SystemFailure(f"path {source} is mounted on {place} but it is not a shared mount")
    elif not shared and not any(option.startswith("master:") for option in options):
        if point["Spec"].get("Fallback"):
            return "rprivate"
        raise SystemFailure(f"path {source} is mounted on {place} but it is not a shared or slave mount")
    return wanted


def _mountinfo() -> str:
    with open("/proc/thread-self/mountinfo", errors="surrogateescape") as file:
        return file.read()


def source_mount(path: str, mountinfo: str) -> tuple[str, list[str]]:
    """(mount point, optional fields) of the mount that shows `path`, from a mountinfo (proc_pid_mountinfo(5))."""
    best, options = "", []
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        place = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = path == place or place == "/" or path.startswith(place + "/")
        # Of two mounts at the same place the later one lies on top.
        if inside and len(place) >= len(best):
            best, options = place, fields[6 : fields.index("-")]
    if not best:
        raise NotFound(f"cannot find the mount that {path} is on")
    return best, options

"""Makes a container's mounts: docker's default mounts, the overlay root, each mount inside it, and pivot_root into it.

Runs in init, in the container's own mount namespace, whose mounts are all private by then: nothing here is seen on the
host. Every place inside the root is opened beneath the root's descriptor first and mounted on by that descriptor, so
that a symbolic link in an image leads nowhere else. It never mounts on a path text that an image can shape.
"""

import errno
import os
import stat
from collections.abc import Iterable

from engine.dataclass import replace
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons, syscalls, userns
from engine.kernel.beneath import is_directory, make_directories, make_file, open_beneath
from engine.sandbox import selinux, subpaths
from engine.sandbox.command import Refusal
from engine.sandbox.procguard import check_outside_proc
from engine.sandbox.spec import Device, Mount, Root

FLAGS: dict[str, int] = {
    "ro": 0x1,
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "sync": 0x10,
    "dirsync": 0x80,
    "nosymfollow": 0x100,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "bind": syscalls.MS_BIND,
    "rbind": syscalls.MS_BIND | syscalls.MS_REC,
    "relatime": 1 << 21,
    "strictatime": 1 << 24,
    "lazytime": 1 << 25,
    "userxattr": 0,  # an option of overlays
    "rro": 0,  # a flag of the mounts alone, not of the file system, see `detached`
    "idmap": 0,  # another one
}
"""The names in `Mount.flags` and their MS_* bits (mount(2))."""

_ATTRIBUTES = {
    "ro": 0x1,
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "noatime": 0x10,
    "strictatime": 0x20,
    "nodiratime": 0x80,
    "nosymfollow": 0x200000,
}
_ATIME_MASK = 0x70

PROPAGATION: dict[str, int] = {
    "private": syscalls.MS_PRIVATE,
    "slave": syscalls.MS_SLAVE,
    "shared": syscalls.MS_SHARED,
    "rprivate": syscalls.MS_PRIVATE | syscalls.MS_REC,
    "rslave": syscalls.MS_SLAVE | syscalls.MS_REC,
    "rshared": syscalls.MS_SHARED | syscalls.MS_REC,
}
"""`Mount.propagation` and its MS_* bits."""

KEEPS_PEERS = frozenset({"slave", "shared", "rslave", "rshared"})
ORDINARY_DIRECTORY_ONLY = frozenset({"proc", "sysfs", "cgroup", "cgroup2"})
"""The kinds that hold masked paths: no symbolic link may be on the way to their places."""
_PAGE = 4096
_NOT_THE_TYPE = 127
_VICE_VERSA = (
    "Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is"
    " the expected type"
)
_MARKS = frozenset(",:\\")
_PLACE = os.O_PATH | os.O_CLOEXEC

# The group tty, if it is among the groups of this user namespace.
_TTY = ",gid=5" if userns.ids() > 5 else ""
_SECURE = ("nosuid", "noexec", "nodev")
_BEFORE_SHM = (
    Mount("proc", "proc", "/proc", _SECURE),
    Mount("tmpfs", "tmpfs", "/dev", ("nosuid", "strictatime"), "mode=755,size=65536k"),
    Mount("devpts", "devpts", "/dev/pts", ("nosuid", "noexec"), f"newinstance,ptmxmode=0666,mode=0620{_TTY}"),
    Mount("sysfs", "sysfs", "/sys", (*_SECURE, "ro")),
    Mount("mqueue", "mqueue", "/dev/mqueue", _SECURE),
)
_CGROUP = Mount("cgroup", "cgroup", "/sys/fs/cgroup", (*_SECURE, "ro"))


def default_mounts(shm_size: int = 64 << 20) -> tuple[Mount, ...]:
    """Docker's mounts for a container that is not privileged, /dev/shm with `shm_size` bytes (0: 64 MiB).

    The kind `cgroup` stands for whichever hierarchies the host has (see `sandbox.cgroups`). It is last because init
    makes the mounts before it while the daemon is still busy with the cgroups.
    """
    size = shm_size or 64 << 20
    return (*_BEFORE_SHM, Mount("tmpfs", "shm", "/dev/shm", _SECURE, f"mode=1777,size={size}"), _CGROUP)


DEFAULT_MOUNTS: tuple[Mount, ...] = default_mounts()

DEFAULT_DEVICES: tuple[Device, ...] = (
    Device("/dev/null", "c", 1, 3),
    Device("/dev/zero", "c", 1, 5),
    Device("/dev/full", "c", 1, 7),
    Device("/dev/random", "c", 1, 8),
    Device("/dev/urandom", "c", 1, 9),
    Device("/dev/tty", "c", 5, 0),
)
"""The nodes every container has; the links beside them are made with them (see `sandbox.devices`)."""


def keeps_peers(mount: Mount) -> bool:
    """Whether the mount stays a peer or slave of the host's mount, and so needs a source of `sources.of_host`."""
    return mount.kind == "bind" and mount.propagation in KEEPS_PEERS


def late(wanted: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """The mounts that must wait until the cgroups are entered.

    They are the cgroup view, and the mounts after it below the same top directory.
    """
    at = next((at for at, mount in enumerate(wanted) if mount.kind == "cgroup"), len(wanted))
    top = wanted[at].target.split("/")[1:2] if at < len(wanted) else []
    return tuple(mount for mount in wanted[at:] if mount.target.split("/")[1:2] == top)


def follow_peers() -> None:
    """Let the host's mounts and unmounts reach this namespace, and none go back: a spare must keep no mount in use."""
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_SLAVE)


def leave_peers() -> None:
    """Make every mount of this namespace private: from here on nothing reaches the host."""
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)


def mount_root(root: Root) -> int:
    """Mount the root on its own writable directory, and return its descriptor (O_PATH).

    The working directory becomes `root.base`. Raises SystemFailure with the words a client reads.
    """
    try:
        if not root.layers:
            _bind_path(root.upper, root.upper)
        else:
            os.chdir(root.base)
            _mount_overlay(root)
        place = os.open(root.upper, _PLACE | os.O_DIRECTORY)
        if root.layers and not root.readonly and os.fstatvfs(place).f_flag & os.ST_RDONLY:
            os.close(place)
            raise _why_readonly(root)
        return place
    except OSError as error:
        kind = "overlay" if root.layers else "bind"
        raise SystemFailure(f"mount: {kind} on /: {reasons.of(error)}") from error


def _why_readonly(root: Root) -> OSError:
    """Find out why an overlay is read-only, which the kernel does not say; it stays so if the disk has room again.

    The kernel could not make a directory in the overlay's work directory.
    """
    probe = os.path.join(root.work, "probe")
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError as error:
        return error
    return OSError(errno.EROFS, os.strerror(errno.EROFS))


def overlay_options(root: Root) -> str | None:
    """The options of the root's overlay for mount(2); None where they need more than a page, or other separators."""
    options = f"lowerdir={':'.join(root.layers[::-1])},upperdir={root.upper},workdir={root.work}"
    options = selinux.mount_options(f"{options},userxattr" if root.userxattr else options, root.label)
    plain = not _MARKS.intersection("".join((*root.layers, root.upper, root.work)))
    return options if plain and len(options.encode()) < _PAGE else None


def _mount_overlay(root: Root) -> None:
    options = overlay_options(root)
    if options is not None:
        syscalls.mount("overlay", root.upper, "overlay", 0, options)
        return
    # More than a page, or characters that separate options: one option at a time (Linux 6.5).
    context = syscalls.fsopen("overlay")
    for layer in root.layers[::-1]:
        syscalls.fsconfig(context, syscalls.FSCONFIG_SET_STRING, "lowerdir+", layer)
    syscalls.fsconfig(context, syscalls.FSCONFIG_SET_STRING, "upperdir", root.upper)
    syscalls.fsconfig(context, syscalls.FSCONFIG_SET_STRING, "workdir", root.work)
    if root.userxattr:
        syscalls.fsconfig(context, syscalls.FSCONFIG_SET_FLAG, "userxattr")
    if root.label:
        syscalls.fsconfig(context, syscalls.FSCONFIG_SET_STRING, "context", root.label)
    syscalls.fsconfig(context, syscalls.FSCONFIG_CMD_CREATE)
    tree = syscalls.fsmount(context, 0)
    place = os.open(root.upper, _PLACE)
    syscalls.move_mount(tree, place)
    for fd in (place, tree, context):
        os.close(fd)


def add(root_fd: int, mount: Mount, source_fd: int = -1) -> None:
    """Make one mount beneath the root. `source_fd`: its detached source from `sources`, if it has one; closed here.

    Raises SystemFailure with docker's words, Invalid for flags that are not in the tables, Refusal for a directory on a
    file or a file on a directory, which docker takes for the client's mistake.
    """
    unknown = [name for name in mount.flags if name not in FLAGS]
    if unknown or (mount.propagation and mount.propagation not in PROPAGATION):
        raise Invalid(f"unknown mount option for {mount.target}: {', '.join([*unknown, mount.propagation])}")
    try:
        if source_fd >= 0:
            _move_source(root_fd, mount, source_fd)
        elif mount.kind == "bind":
            _bind(root_fd, mount)
        else:
            _mount_kind(root_fd, mount)
    except OSError as error:
        raise failure(mount, error, mount_words(mount, error)) from error


def failure(mount: Mount, error: OSError, text: str) -> Exception:
    """The exception: Refusal for a directory where a file is, or the reverse, with dockerd; else SystemFailure."""
    if error.errno == errno.ENOTDIR:
        return Refusal(error.errno, f"{text}: {_VICE_VERSA}", _NOT_THE_TYPE)
    return SystemFailure(text)


def mount_words(mount: Mount, error: OSError) -> str:
    """The failure of a mount in runc's words."""
    return words_before(mount) + words(error)


def words_before(mount: Mount) -> str:
    """What stands before the reason in `mount_words`."""
    flags = "|".join(f"MS_{name.upper()}" for name in mount.flags)
    data = f", data={mount.data}" if mount.data else ""
    where = f'error mounting "{mount.source}" to rootfs at "{mount.target}"'
    return f"{where}: mount src={mount.source}, dst={mount.target}, flags={flags}{data}: "


def source_words(mount: Mount, error: OSError) -> str:
    """The failure to open a bind's source, in runc's words."""
    path = mount.source
    return f'error mounting "{path}" to rootfs at "{mount.target}": stat {path}: {words(error)}'


def words(error: OSError) -> str:
    """The reason of a failure in the form of docker's texts: `no such file or directory`."""
    return reasons.of(error)


def _mount_kind(root_fd: int, mount: Mount) -> None:
    if mount.asked and mount.kind == "tmpfs":
        mount = _with_mode(root_fd, mount)
    place = _place_for(root_fd, mount)
    try:
        if mount.asked:
            check_outside_proc(root_fd, place, mount.source, mount.target)
        # On a kernel without open_tree(2), a mount that is read-only for this container alone is mounted here.
        mount_on(place, replace(mount, flags=(*mount.flags, "ro")) if "rro" in mount.flags else mount)
    finally:
        os.close(place)
    if mount.asked and mount.propagation in KEEPS_PEERS:
        # The host has no peer of this mount; it matters to namespaces that the container makes.
        top = open_beneath(root_fd, mount.target, _PLACE)
        os.fchdir(top)
        syscalls.mount(None, ".", None, PROPAGATION[mount.propagation])
        os.close(top)


def mount_on(place: int, mount: Mount) -> None:
    """Mount a file system on the directory behind a descriptor; `image`: its layers. Raises OSError."""
    if mount.kind == "image":
        _mount_layers(place, mount)
        return
    flags = 0
    for name in mount.flags:
        flags |= FLAGS[name]
    # A mount on "." of an open directory cannot be redirected, and costs one call.
    os.fchdir(place)
    syscalls.mount(mount.source, ".", mount.kind, flags, mount.data or None)


def _mount_layers(place: int, mount: Mount) -> None:
    """An image's root without a writable layer; a single layer is bound, since an overlay needs two lower ones."""
    layers = mount.data.split(":")
    flags = [name for name in mount.flags if name == "nodev"]
    if len(layers) == 1:
        layer = os.open(os.path.join(mount.source, layers[0]), _PLACE | os.O_DIRECTORY)
        try:
            attach(layer, place, attributes=("ro", *flags))
        finally:
            os.close(layer)
        return
    os.chdir(mount.source)
    options = f"lowerdir={':'.join(layers[::-1])}" + ",userxattr" * ("userxattr" in mount.flags)
    bits = syscalls.MS_RDONLY | sum(FLAGS[name] for name in flags)
    syscalls.mount("overlay", f"/proc/self/fd/{place}", "overlay", bits, options)


def _with_mode(root_fd: int, mount: Mount) -> Mount:
    """Give a tmpfs the mode of the directory that it hides, unless it was given one (runc does the same)."""
    try:
        hidden = open_beneath(root_fd, mount.target, _PLACE | os.O_DIRECTORY)
    except FileNotFoundError:
        return mount
    mode = stat.S_IMODE(os.fstat(hidden).st_mode)
    os.close(hidden)
    # The last mode in the options counts.
    return replace(mount, data=f"mode={mode:04o},{mount.data}".rstrip(","))


def move(root_fd: int, mount: Mount, tree_fd: int) -> None:
    """Move a mount that exists already, and all in it, to its place beneath the root. Raises SystemFailure."""
    try:
        place = _place_for(root_fd, mount)
        try:
            syscalls.move_mount(tree_fd, place)
        finally:
            os.close(place)
    except OSError as error:
        raise SystemFailure(mount_words(mount, error)) from error


def _place_for(root_fd: int, mount: Mount) -> int:
    """The directory to mount on. For a mount with masked paths no symbolic link may be on the way."""
    target = mount.target
    if mount.kind not in ORDINARY_DIRECTORY_ONLY:
        return make_directories(root_fd, target)
    try:
        return open_beneath(root_fd, target, _PLACE | os.O_DIRECTORY, no_symlinks=True)
    except FileNotFoundError:
        os.close(make_directories(root_fd, target))
        return open_beneath(root_fd, target, _PLACE | os.O_DIRECTORY, no_symlinks=True)


def _recursion(mount: Mount) -> int:
    return syscalls.AT_RECURSIVE if "rbind" in mount.flags else 0


def detached(source_fd: int, mount: Mount, users: int = -1) -> int:
    """A detached copy of what is behind a descriptor; no process sees it before it has all attributes of the mount.

    users: a descriptor of the container's user namespace, if it has one. Raises OSError, ENOSYS before Linux 5.12.
    """
    depth = _recursion(mount)
    tree = syscalls.open_tree(source_fd, "", syscalls.OPEN_TREE_CLONE | syscalls.AT_EMPTY_PATH | depth)
    try:
        # Without peers unless the mount keeps them. This covers the mounts below it too: in runc's containers the whole
        # namespace has no peers.
        propagation = PROPAGATION[mount.propagation] if keeps_peers(mount) else syscalls.MS_PRIVATE
        bits, clear = attribute_bits(name for name in mount.flags if name != "ro")
        if mount.kind != "bind":
            clear |= syscalls.MOUNT_ATTR_RDONLY  # another container may have it read-only
        if "rro" in mount.flags:
            bits |= syscalls.MOUNT_ATTR_RDONLY
        syscalls.mount_setattr(tree, depth, bits, clear, propagation & ~syscalls.MS_REC)
        if "ro" in mount.flags:
            syscalls.mount_setattr(tree, 0, syscalls.MOUNT_ATTR_RDONLY)
        if "idmap" in mount.flags and users >= 0:
            syscalls.mount_setattr(tree, 0, syscalls.MOUNT_ATTR_IDMAP, users=users)
    except OSError:
        os.close(tree)
        raise
    return tree


def is_unknown(error: OSError) -> bool:
    """Whether the kernel lacks the system call."""
    return error.errno == errno.ENOSYS


def _place_of_source(root_fd: int, mount: Mount, source: int) -> int:
    """The place to mount a directory or a file on: a place of the same type, made if it is missing."""
    directory = is_directory(source)
    place = (make_directories if directory else make_file)(root_fd, mount.target)
    try:
        if not directory and is_directory(place):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if mount.asked:
            check_outside_proc(root_fd, place, mount.source, mount.target, source)
    except BaseException:
        os.close(place)
        raise
    return place


def _move_source(root_fd: int, mount: Mount, tree: int) -> None:
    place = -1
    try:
        place = _place_of_source(root_fd, mount, tree)
        syscalls.move_mount(tree, place)
    finally:
        os.close(tree)
        if place >= 0:
            os.close(place)


def _bind(root_fd: int, mount: Mount) -> None:
    source = subpaths.open_source(mount)
    place = -1
    try:
        place = _place_of_source(root_fd, mount, source)
        attributes = ["ro" if name == "rro" else name for name in mount.flags if name in _ATTRIBUTES or name == "rro"]
        # All mounts of this namespace are private already.
        attach(source, place, attributes=attributes, recursive="rbind" in mount.flags)
    finally:
        os.close(source)
        if place >= 0:
            os.close(place)


def attach(source_fd: int, place_fd: int, *, attributes: Iterable[str] = (), recursive: bool = False) -> None:
    """Bind what is behind one descriptor on the place behind another, its attributes set before any process can see it.

    attributes: names of `_ATTRIBUTES`. Raises OSError.
    """
    bits, clear = attribute_bits(attributes)
    depth = syscalls.AT_RECURSIVE if recursive else 0
    tree = -1
    try:
        tree = syscalls.open_tree(source_fd, "", syscalls.OPEN_TREE_CLONE | syscalls.AT_EMPTY_PATH | depth)
        if bits:
            syscalls.mount_setattr(tree, depth, bits, clear)
        syscalls.move_mount(tree, place_fd)
    except OSError as error:
        if not is_unknown(error):
            raise
        _attach_by_path(source_fd, place_fd, bits, recursive)
    finally:
        if tree >= 0:
            os.close(tree)


def attribute_bits(names: Iterable[str]) -> tuple[int, int]:
    """The MOUNT_ATTR_* bits to set, and those to clear first, since only one way to keep access times can be set."""
    bits = clear = 0
    for name in names:
        bits |= _ATTRIBUTES.get(name, 0)
        if bits & _ATIME_MASK:
            clear = _ATIME_MASK
    return bits, clear


def _attach_by_path(source_fd: int, place_fd: int, attributes: int, recursive: bool) -> None:
    """`attach` for kernels before 5.12: bind, find the new mount again by its place, remount it.

    A remount reaches no mount below, so with `nodev` none is bound along.
    """
    recursive = recursive and not attributes & syscalls.MOUNT_ATTR_NODEV
    target = f"/proc/self/fd/{place_fd}"
    where = os.readlink(target)
    _bind_path(f"/proc/self/fd/{source_fd}", target, syscalls.MS_REC if recursive else 0)
    if attributes:
        # The first bits of MOUNT_ATTR_* and of MS_* are the same. The mount is on top of its place: look it up anew.
        top = os.open(where, _PLACE | os.O_NOFOLLOW)
        flags = syscalls.MS_BIND | syscalls.MS_REMOUNT | (attributes & 0xF)
        syscalls.mount(None, f"/proc/self/fd/{top}", None, flags)
        os.close(top)


def _bind_path(source: str, target: str, depth: int = 0) -> None:
    syscalls.mount(source, target, None, syscalls.MS_BIND | depth)


def make_root_readonly(root_fd: int) -> None:
    """Make the root's own mount read-only; mounts inside it keep what they have. Raises OSError."""
    _restrict(root_fd, syscalls.MOUNT_ATTR_RDONLY)


def make_root_nodev(root_fd: int) -> None:
    """Let no process open a device node of the root's own mount. Raises OSError."""
    _restrict(root_fd, syscalls.MOUNT_ATTR_NODEV)


def _restrict(root_fd: int, attribute: int) -> None:
    try:
        syscalls.mount_setattr(root_fd, 0, attribute)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        # A remount sets all flags anew; these two have the same bits in statvfs(3).
        kept = os.fstatvfs(root_fd).f_flag & (syscalls.MS_RDONLY | syscalls.MS_NODEV)
        flags = syscalls.MS_BIND | syscalls.MS_REMOUNT | kept | attribute
        syscalls.mount(None, f"/proc/self/fd/{root_fd}", None, flags)


def enter(root_fd: int) -> None:
    """pivot_root into the root and detach the host's mounts; the working directory is the new "/".

    The old root is stacked on the new one and detached at once, so no directory for it is needed in the image
    (pivot_root(2), NOTES). Raises OSError; EINVAL where the host itself runs from its initial ramfs.
    """
    os.fchdir(root_fd)
    syscalls.pivot_root(".", ".")
    syscalls.umount2(".", syscalls.MNT_DETACH)
    os.chdir("/")

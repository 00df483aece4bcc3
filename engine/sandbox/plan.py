"""Compiles an ordinary sandbox into a plan: the records that `_muxer/birth` walks to make process 1 without Python.

Pure; the daemon compiles, a process of the C muxer obeys. `STEPS` declares every step of a plan once, and C gets its
numbers from there by `engine.wire.header`. `engine.birth.init` is what a plan must do: the tests in tests/sandbox build
the same sandboxes both ways. A plan knows kernels from 5.12 on and the host's user namespace. It is not made for what
few containers ask for (another runtime, hooks, SELinux, volumes with options, joined namespaces); Python's init makes
those. All texts that can be made before the start are made here, the words of a failed mount too.
"""

import functools
import os
import struct
from collections.abc import Callable, Iterable

from engine.errors import Invalid
from engine.kernel import syscalls, userns
from engine.sandbox import capabilities, devices, limits, masks, mounts, namespaces, stage, sysctls
from engine.sandbox.cgroups import view
from engine.sandbox.spec import Device, Mount, Rlimit, Sandbox

STEPS: tuple[tuple[str, str], ...] = (
    ("SECLUDE", "seclude"),
    ("OOM_SCORE", "seclude"),
    ("UNSHARE", "namespaces"),
    ("LOOPBACK", "network"),
    ("READY", "namespaces"),
    ("NAME", "hostname"),
    ("SOURCE", "root"),
    ("LEAVE_PEERS", "root"),
    ("ROOT", "root"),
    ("FURNISH", "mounts"),
    ("MOUNT", "mounts"),
    ("BIND", "mounts"),
    ("PLACE", "mounts"),
    ("DEVICE", "devices"),
    ("LINK", "devices"),
    ("TERMINAL", "devices"),
    ("READ_ONLY", "protect"),
    ("MASK", "protect"),
    ("USER", "user"),
    ("DIRECTORY", "directory"),
    ("WAIT", "cgroup"),
    ("CGROUP", "cgroup"),
    ("CGROUP_NAMESPACE", "cgroup"),
    ("PARAMETER", "network"),
    ("HIERARCHIES", "mounts"),
    ("ROOT_READ_ONLY", "pivot"),
    ("PIVOT", "pivot"),
    ("CONTROL", "streams"),
    ("STREAMS", "streams"),
    ("LIMIT", "limits"),
    ("PROFILE", "privileges"),
    ("PRIVILEGES", "privileges"),
    ("EXECUTE", "exec"),
    ("JOIN", "namespaces"),
    ("ENTER_CGROUP", "cgroup"),
    ("CHANGE_DIRECTORY", "directory"),
    ("JOIN_TERMINAL", "terminal"),
    ("BEAR", "exec"),
)
"""Every step of a plan: its name in C, and its name in a failure, which is that of `birth.init` or `birth.join`."""

NUMBERS = {name: number for number, (name, _) in enumerate(STEPS, 1)}

AHEAD = ("SECLUDE", "UNSHARE", "LOOPBACK", "READY")
"""What an init that was prepared ahead of time has done already."""

STRAIGHT, ASKED, SAME_MODE = 1, 2, 4
"""How a MOUNT's place is found: without symbolic links; for a client; with the mode of the directory that it hides."""

MOST = 60 * 1024
"""The largest plan, in bytes: it travels in one datagram."""

_MOST_SOURCES = 64
_REMEMBERED = 8  # different rights and limits, of which most containers have the same
_NUMBER, _LENGTH, _HEAD = struct.Struct("=q"), struct.Struct("=I"), struct.Struct("=II")
_LAST_CAPABILITY = capabilities.last_known()
_MAY_SET_GROUPS = userns.may_set_groups()
_HIERARCHIES = "/sys/fs/cgroup"

Value = int | str | bytes | tuple[str, ...]


class Other(Exception):
    """The sandbox has something that no plan can say."""


def record(name: str, *values: Value) -> bytes:
    """One step: the size of it all and its number, then its fields."""
    body = packed(*values)
    return _HEAD.pack(_HEAD.size + len(body), NUMBERS[name]) + body


def packed(*values: Value) -> bytes:
    """Fields: a number as eight bytes, a text as its length, its bytes and a NUL, several texts as their number and
    each of them. Raises Other for what none of these can hold.
    """
    parts = []
    for value in values:
        if isinstance(value, tuple):
            parts.append(_number(len(value)))
            parts += map(_text, value)
        elif isinstance(value, int):
            parts.append(_number(value))
        else:
            parts.append(_text(value) if isinstance(value, str) else _blob(value))
    return b"".join(parts)


def _number(number: int) -> bytes:
    try:
        return _NUMBER.pack(number)
    except struct.error as error:
        raise Other("a number of more than 64 bits") from error


def _text(text: str) -> bytes:
    try:
        encoded = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Other("half of a character") from error
    if b"\0" in encoded:
        raise Other("a text with a NUL")
    return _blob(encoded)


def _blob(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value + b"\0"


def possible() -> bool:
    """Whether this kernel, and this process's user namespace, can do what the steps of a plan do."""
    return userns.is_hosts() and all(map(_is_known, _NEEDED))


def _is_known(call: str) -> bool:
    """Whether the kernel has a system call; it is called in a way that does nothing."""
    try:
        _NEEDED[call]()
    except OSError as error:
        # EPERM: an old seccomp profile around the engine itself answers so for calls that it does not know.
        return error.errno not in (38, 1)
    return True


_NEEDED: dict[str, Callable[[], object]] = {
    "openat2": lambda: os.close(syscalls.openat2(-100, "/", os.O_PATH, 0, 0)),
    "mount_setattr": lambda: syscalls.mount_setattr(-1, 0, 1),
    "open_tree": lambda: syscalls.open_tree(-1, "", syscalls.AT_EMPTY_PATH),
    "close_range": lambda: syscalls.close_range(0xFFFFFFFE, 0xFFFFFFFE, syscalls.CLOSE_RANGE_CLOEXEC),
}


def furniture() -> bytes:
    """The plan of what every ordinary container has: docker's default mounts, devices and masks (`sandbox.stage`)."""
    steps = [_mount(mount) for mount in stage.MOUNTS]
    steps += _devices(mounts.DEFAULT_DEVICES)
    steps += _masks(masks.READONLY_PATHS, masks.MASKED_PATHS)
    return b"".join(steps)


def compiled(sandbox: Sandbox) -> bytes | None:
    """The plan of process 1; None for a sandbox that only Python's init can make."""
    try:
        _check(sandbox)
        plan = b"".join(_start(sandbox))
    except (Other, Invalid, KeyError):
        return None  # what is wrong with it, init tells with the words for it
    return plan if len(plan) <= MOST else None


def joined(sandbox: Sandbox, pid: int, bears: bool) -> bytes | None:
    """The plan of a further process (exec) beside process 1 `pid`; None for one that only Python's joiner can make.

    bears: the process may share the joiner's memory until it has executed (see `birth.join`)
    """
    try:
        _check_process(sandbox)
        plan = b"".join(_join(sandbox, pid, bears))
    except (Other, Invalid, KeyError):
        return None
    return plan if len(plan) <= MOST else None


def _check(sandbox: Sandbox) -> None:
    if sandbox.hooks or sandbox.joined or sandbox.root.label or sandbox.root.userxattr:
        raise Other("what few containers have")
    if "mount" not in sandbox.namespaces or "user" in sandbox.namespaces:
        raise Other("its namespaces")
    _check_process(sandbox)


def _check_process(sandbox: Sandbox) -> None:
    if sandbox.runtime or sandbox.label or sandbox.uids or not sandbox.argv:
        raise Other("what few processes have")


def _start(sandbox: Sandbox) -> Iterable[bytes]:
    """The steps of `birth.init.STEPS`, in their order."""
    yield record("SECLUDE")
    if sandbox.oom_score_adj is not None:
        yield record("OOM_SCORE", sandbox.oom_score_adj)
    without = namespaces.LATER | namespaces.BY_MONITOR
    yield record("UNSHARE", namespaces.flags(sandbox.namespaces, without=without))
    if "net" in sandbox.namespaces:
        yield record("LOOPBACK")
    yield record("READY")
    if "uts" in sandbox.namespaces and (sandbox.hostname or sandbox.domainname):
        yield record("NAME", sandbox.hostname, sandbox.domainname)
    sources = {id(mount): place for place, mount in enumerate(filter(_has_source, sandbox.mounts))}
    if len(sources) > _MOST_SOURCES:
        raise Other("many binds")
    yield from (_source(mount) for mount in sandbox.mounts if id(mount) in sources)
    yield record("LEAVE_PEERS")
    yield _root(sandbox)
    late = mounts.late(sandbox.mounts)
    furnished = stage.furnishes(sandbox)
    done = len(stage.MOUNTS) if furnished else 0
    if furnished:
        yield _furnished()
    for mount in sandbox.mounts[done:]:
        if mount not in late:
            yield _add(mount, sources)
    if sandbox.devices and not furnished:
        yield from _devices(sandbox.devices)
    if sandbox.tty:
        yield record("TERMINAL", sandbox.rows, sandbox.columns)
    masked_late = any(mount.asked for mount in late)
    if not (furnished or masked_late):
        yield from _masks(sandbox.readonly_paths, sandbox.masked_paths)
    yield _user(sandbox)
    yield record("DIRECTORY", sandbox.cwd or "/")
    yield record("WAIT")
    yield from (record("CGROUP", path) for path in sandbox.cgroups)
    if "cgroup" in sandbox.namespaces:
        yield record("CGROUP_NAMESPACE")
    for name, value in sandbox.sysctls:
        yield record("PARAMETER", f"/proc/sys/{sysctls.check(name, sandbox.namespaces)}", value)
    for mount in late:
        if mount.kind == "cgroup":
            yield from _cgroups(sandbox, mount)
        else:
            yield _add(mount, sources)
    if masked_late:
        yield from _masks(sandbox.readonly_paths, sandbox.masked_paths)
    if sandbox.root.readonly:
        yield record("ROOT_READ_ONLY")
    yield record("PIVOT")
    if sandbox.tty:
        yield record("CONTROL")
    yield record("STREAMS")
    yield from _profile(sandbox, outside=False)
    yield _rights(sandbox)
    yield _command("EXECUTE", sandbox)


def _join(sandbox: Sandbox, pid: int, bears: bool) -> Iterable[bytes]:
    """The steps of `birth.join.STEPS`, in their order."""
    yield record("SECLUDE")
    if sandbox.oom_score_adj is not None:
        yield record("OOM_SCORE", sandbox.oom_score_adj)
    yield from (record("ENTER_CGROUP", *os.path.split(path), pid) for path in sandbox.cgroups)
    yield from _profile(sandbox, outside=True)
    yield record("JOIN", sum(namespaces.NAMESPACES[name].flag for name in namespaces.NAMESPACES if name != "user"))
    yield _user(sandbox)
    yield record("CHANGE_DIRECTORY", sandbox.cwd or "/")
    if sandbox.tty:
        yield record("JOIN_TERMINAL", sandbox.rows, sandbox.columns)
    yield record("STREAMS")
    yield _rights(sandbox)
    yield _command("BEAR", sandbox, bears)


def _add(mount: Mount, sources: dict[int, int]) -> bytes:
    _check_flags(mount)
    if id(mount) in sources:
        return record("PLACE", sources[id(mount)], mount.source, mount.target, mount.asked, mounts.words_before(mount))
    return _bind(mount) if mount.kind == "bind" else _mount(mount)


def _check_flags(mount: Mount) -> None:
    if mount.place or mount.holder or mount.subpath or mount.kind == "image" or "idmap" in mount.flags:
        raise Other("a mount that is made elsewhere first")
    if any(name not in mounts.FLAGS for name in mount.flags):
        raise Other("an unknown flag")
    if mount.propagation and mount.propagation not in mounts.PROPAGATION:
        raise Other("an unknown propagation")


def _has_source(mount: Mount) -> bool:
    return mount.kind == "bind" and (mount.asked or mounts.keeps_peers(mount))


def _source(mount: Mount) -> bytes:
    """A bind's source, as `mounts.detached` makes it."""
    _check_flags(mount)
    propagation = mounts.PROPAGATION[mount.propagation] if mounts.keeps_peers(mount) else syscalls.MS_PRIVATE
    bits, clear = mounts.attribute_bits(name for name in mount.flags if name != "ro")
    if "rro" in mount.flags:
        bits |= syscalls.MOUNT_ATTR_RDONLY
    words = f'error mounting "{mount.source}" to rootfs at "{mount.target}": stat {mount.source}: '
    shallow = syscalls.MOUNT_ATTR_RDONLY if "ro" in mount.flags else 0
    numbers = ("rbind" in mount.flags, bits, clear, propagation & ~syscalls.MS_REC, shallow)
    return record("SOURCE", mount.source, *numbers, words)


def _bind(mount: Mount) -> bytes:
    """A bind of the engine's own, as `mounts.add` makes it."""
    bits, clear = mounts.attribute_bits("ro" if name == "rro" else name for name in mount.flags)
    recursive = "rbind" in mount.flags
    return record("BIND", mount.source, mount.target, recursive, bits, clear, mounts.words_before(mount))


def _mount(mount: Mount) -> bytes:
    """Another file system, as `mounts.add` makes it."""
    how = STRAIGHT * (mount.kind in mounts.ORDINARY_DIRECTORY_ONLY) + ASKED * mount.asked
    how += SAME_MODE * (mount.asked and mount.kind == "tmpfs")
    flags = 0
    for name in mount.flags:
        flags |= mounts.FLAGS["ro" if name == "rro" else name]
    propagation = (
        mounts.PROPAGATION[mount.propagation] if mount.asked and mount.propagation in mounts.KEEPS_PEERS else 0
    )
    texts = (mount.kind, mount.source, mount.target, mount.data)
    return record("MOUNT", *texts, flags, how, propagation, mounts.words_before(mount))


@functools.cache
def _furnished() -> bytes:
    return b"".join(map(_furnish, stage.TREES))


def _furnish(mount: Mount) -> bytes:
    return record("FURNISH", mount.target, mount.kind in mounts.ORDINARY_DIRECTORY_ONLY, mounts.words_before(mount))


def _root(sandbox: Sandbox) -> bytes:
    root = sandbox.root
    options = ""
    if root.layers:
        found = mounts.overlay_options(root)
        if found is None:
            raise Other("an overlay whose options do not fit one page")
        options = found
    return record("ROOT", root.base, root.upper, root.work, options, root.readonly, root.nodev)


def _devices(wanted: Iterable[Device]) -> Iterable[bytes]:
    for device in wanted:
        directory, _, name = device.path.rpartition("/")
        kind = devices.KINDS[device.kind]
        number = os.makedev(device.major, device.minor)
        yield record("DEVICE", directory, name, device.path, kind | device.mode, number, device.uid, device.gid)
    for name, target in devices.LINKS:
        yield record("LINK", name, target)


def _masks(readonly: Iterable[str], masked: Iterable[str]) -> Iterable[bytes]:
    yield from (record("READ_ONLY", path) for path in readonly)
    yield from (record("MASK", path) for path in masked)


def _user(sandbox: Sandbox) -> bytes:
    name, group, *_ = *sandbox.user.split(":"), ""  # what stands behind a second colon is nobody's
    return record("USER", name, group, tuple(sandbox.groups))


def _cgroups(sandbox: Sandbox, mount: Mount) -> Iterable[bytes]:
    """The view of the cgroups, as `cgroups.view` makes it."""
    if os.path.exists(f"{_HIERARCHIES}/cgroup.controllers"):
        yield _mount(Mount("cgroup2", "cgroup", mount.target, mount.flags))
        return
    if "cgroup" not in sandbox.namespaces or not sandbox.cgroups:
        raise Other("the host's view of version 1")
    flags = tuple(name for name in mount.flags if name != "ro")
    yield _mount(Mount("tmpfs", "tmpfs", mount.target, flags, "mode=755,size=64k"))
    hierarchies = tuple(text for entry in sandbox.cgroups for text in view.described(os.path.dirname(entry)))
    bits = sum(mounts.FLAGS[name] for name in mount.flags)
    yield record("HIERARCHIES", mount.target, bits, "ro" in mount.flags, hierarchies)


def _profile(sandbox: Sandbox, *, outside: bool) -> Iterable[bytes]:
    if sandbox.apparmor:
        yield record("PROFILE", sandbox.apparmor, outside)


def _rights(sandbox: Sandbox) -> bytes:
    return _rights_of(
        sandbox.rlimits,
        sandbox.capabilities,
        sandbox.no_new_privileges,
        sandbox.seccomp,
        sandbox.seccomp_flags,
    )


@functools.lru_cache(_REMEMBERED)
def _rights_of(
    rlimits: tuple[Rlimit, ...],
    names: tuple[str, ...],
    no_new_privileges: bool,
    seccomp: bytes,
    seccomp_flags: int,
) -> bytes:
    # A limit that would hinder these steps comes last.
    steps = [
        record("LIMIT", each.name, limits.NAMES[each.name], each.soft, each.hard, limits.hinders(each))
        for each in rlimits
    ]
    asked = capabilities.mask(names)
    numbers = (asked, _LAST_CAPABILITY, no_new_privileges, _MAY_SET_GROUPS)
    steps.append(record("PRIVILEGES", *numbers, seccomp, seccomp_flags, capabilities.ALL))
    return b"".join(steps)


def _command(step: str, sandbox: Sandbox, *more: int) -> bytes:
    environment = dict(entry.partition("=")[::2] for entry in sandbox.env if "=" in entry)
    home = bool(environment.get("HOME"))  # an empty one stands for the user's own too
    variables = tuple(f"{name}={value}" for name, value in environment.items() if home or name != "HOME")
    return record(step, sandbox.umask, home, environment.get("PATH", ""), sandbox.argv, variables, *more)

"""Translate and check the isolation options of HostConfig: Privileged, SecurityOpt, Devices, Sysctls.

Runs in the daemon's request threads: `check` and `adapt` at create, the others at each start. This module parses the
API's values and raises docker's refusals; `engine.sandbox` applies them. It never changes a HostConfig that a container
owns.
"""

import contextlib
import os
import posixpath
import re
import stat

from engine.daemon.containers.mounts.requests import UncheckedByDockerd
from engine.daemon.containers.security import confinement, joins
from engine.daemon.containers.shapes import DeviceRequest, HostConfig
from engine.daemon.jsontext import Object
from engine.daemon.parts import SecurityParts
from engine.daemon.runtime.handshake import BY_RUNC, NOT_CREATED
from engine.dataclass import dataclass
from engine.errors import Invalid, NotFound, SystemFailure
from engine.kernel import reasons, userns
from engine.late import TYPE_CHECKING, late
from engine.sandbox import capabilities, device_rules, mounts, seccomp, sysctls
from engine.sandbox.spec import Device, Mount

if TYPE_CHECKING:  # loaded by the first container that asks for a CDI device
    from engine.daemon.containers.security import cdispecs
    from engine.daemon.containers.security.cdispecs import Edits, Node
else:
    cdispecs = late("engine.daemon.containers.security.cdispecs")

if TYPE_CHECKING:  # loaded where the daemon is to give labels
    from engine.daemon.containers.security import labels
else:
    labels = late("engine.daemon.containers.security.labels")

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_PERMISSIONS = re.compile(r"[rwm]{0,3}", re.ASCII)
_CDI = "cdi"
_AMDS = "amd.com/gpu"
# The kinds of GPUs in CDI files, and the names and the abilities of docker's driver for each. dockerd has AMD's always.
_GPUS = (
    (
        "nvidia.com/gpu",
        frozenset({"nvidia", "nvidia.cdi"}),
        frozenset({"gpu", "nvidia", "compute", "compat32", "graphics", "utility", "video", "display"}),
    ),
    (_AMDS, frozenset({"amd"}), frozenset({"gpu", "amd"})),
)
_UNCONFINED, _BUILTIN = "unconfined", "builtin"
# Not given to a privileged container, as in docker: what it has of its own, and device trees of other programs.
_SKIPPED_DIRECTORIES = frozenset({"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"})
_SKIPPED = frozenset({"/dev/console", "/dev/ptmx"})
_OWN_SHM = frozenset({"private", "shareable"})
_KINDS = {stat.S_IFCHR: "c", stat.S_IFBLK: "b"}


@dataclass(frozen=True, slots=True)
class Security:
    """The parsed SecurityOpt. seccomp: `unconfined`, `builtin`, or a profile's text; empty: not asked for.

    labels: the values of `label=`, as `type:svirt_t` or `disable`
    """

    no_new_privileges: bool = False
    writable_cgroups: bool = False
    seccomp: str = ""
    apparmor: str = ""
    labels: tuple[str, ...] = ()


_NOTHING_ASKED = Security()


def security(options: list[str] | None, no_new_privileges: bool = False) -> Security:
    """The parsed SecurityOpt of a HostConfig. Raises docker's refusal of an option that it does not know.

    no_new_privileges: the daemon's setting for containers that do not say
    """
    if not options and not no_new_privileges:
        return _NOTHING_ASKED
    switches = {"no-new-privileges": no_new_privileges, "writable-cgroups": False}
    profiles = {"seccomp": "", "apparmor": ""}
    asked_labels: list[str] = []
    for option in options or ():
        if option in switches:
            switches[option] = True
            continue
        if option == "disable":  # an option of labels, from very old clients
            asked_labels.append(option)
            continue
        name, sign, value = option.partition("=" if "=" in option else ":")
        if not sign:
            raise UncheckedByDockerd(f'invalid --security-opt 1: "{option}"')
        if name in profiles:
            profiles[name] = value
        elif name in switches and value in _TRUE | _FALSE:
            switches[name] = value in _TRUE
        elif name == "label":
            asked_labels.append(value)
        else:
            raise UncheckedByDockerd(f'invalid --security-opt 2: "{option}"')
    return Security(
        switches["no-new-privileges"],
        switches["writable-cgroups"],
        profiles["seccomp"],
        profiles["apparmor"],
        tuple(asked_labels),
    )


def check(host_config: HostConfig) -> None:
    """Raise for what create can see to be wrong. `host_config` is complete."""
    asked = security(host_config["SecurityOpt"])
    if asked.seccomp not in ("", _UNCONFINED, _BUILTIN):
        seccomp.compile_text(asked.seccomp, _capabilities(host_config))
    for device in host_config["Devices"] or ():
        if not _PERMISSIONS.fullmatch(device.get("CgroupPermissions") or ""):
            raise Invalid(f"bad mode specified: {device['CgroupPermissions']}")
        if "\0" in (device.get("PathOnHost") or "") + (device.get("PathInContainer") or ""):
            raise Invalid("a device's path cannot contain a NUL character")
    for rule in host_config["DeviceCgroupRules"] or ():
        device_rules.parse(rule)


def adapt(engine: SecurityParts, asked: Object, host_config: HostConfig) -> None:
    """Complete, in place, a HostConfig that no container owns yet, as docker does once it has checked it.

    asked: the client's own. Containers whose namespaces are joined are recorded by id, since a name may change. Raises
    Invalid where a container is missing whose IPC or PID namespace is to be joined.
    """
    for key in ("PidMode", "IpcMode", "NetworkMode"):
        wanted = joins.container_of(host_config[key])
        if wanted:
            with contextlib.suppress(NotFound, Invalid):  # the start will fail, or this is refused below
                host_config[key] = f"container:{engine.containers.find(wanted).id}"
    if host_config["Privileged"]:
        for hidden in ("MaskedPaths", "ReadonlyPaths"):
            if asked.get(hidden) is None:
                host_config[hidden] = None
        if not asked.get("CgroupnsMode") and engine.cgroups.version == "1":
            host_config["CgroupnsMode"] = "host"
    options = host_config["SecurityOpt"] or []
    if any(option.partition("=")[0] == "label" for option in options):
        return
    if host_config["Privileged"] or "host" in (host_config["IpcMode"], host_config["PidMode"]):
        host_config["SecurityOpt"] = [*options, "label=disable"]
        return
    shared = _shared_label(engine, host_config)
    if shared:
        host_config["SecurityOpt"] = [*options, *shared]


def _shared_label(engine: SecurityParts, host_config: HostConfig) -> list[str]:
    """The label options of a container that shares another one's IPC or PID namespace: they have the same label.

    dockerd looks for the other containers here, whether it gives labels or not. Raises Invalid for one that is missing.
    """
    found = []
    for wanted in filter(None, (joins.container_of(host_config[key]) for key in ("IpcMode", "PidMode"))):
        try:
            other = engine.containers.find(wanted)
        except NotFound as error:
            raise Invalid(str(error)) from error
        if engine.settings.selinux_enabled and (options := labels.asked_by(other)):
            found.append(options)
    if len(found) == 2 and found[0] != found[1]:
        raise SystemFailure("--ipc and --pid containers SELinux labels aren't the same")
    return found[0] if found else []


def absolute(path: str) -> str:
    """The path from the root, cleaned; `..` cannot leave it. Of two leading slashes (normpath keeps them) one stays."""
    return "/" + posixpath.normpath(f"/{path}").lstrip("/")


def _capabilities(host_config: HostConfig) -> tuple[str, ...]:
    return capabilities.effective(host_config["CapAdd"], host_config["CapDrop"], host_config["Privileged"])


def filter_of(host_config: HostConfig, held: tuple[str, ...], default: str = _BUILTIN) -> bytes:
    """The seccomp filter of a container with these capabilities; empty for none. Raises Invalid.

    default: the daemon's profile for containers that name none: `builtin`, `unconfined`, or a profile's text
    """
    profile = profile_of(host_config, default)
    if profile == _UNCONFINED:
        return b""
    return seccomp.default_profile(held) if profile == _BUILTIN else seccomp.compile_text(profile, held)


def filter_flags_of(host_config: HostConfig, default: str = _BUILTIN) -> int:
    """The seccomp flags (SECCOMP_FILTER_FLAG_*) of the filter of `filter_of`."""
    profile = profile_of(host_config, default)
    return 0 if profile in (_UNCONFINED, _BUILTIN) else seccomp.flags_of_text(profile)


def profile_of(host_config: HostConfig, default: str) -> str:
    """The seccomp profile: `builtin`, `unconfined`, or a text. default: see `filter_of`"""
    return security(host_config["SecurityOpt"]).seccomp or (_UNCONFINED if host_config["Privileged"] else default)


def apparmor_of(host_config: HostConfig) -> str:
    """The AppArmor profile; empty for none."""
    return confinement.chosen(security(host_config["SecurityOpt"]).apparmor, host_config["Privileged"])


def sysctls_of(
    host_config: HostConfig, default: tuple[tuple[str, str], ...], namespaces: joins.Namespaces
) -> tuple[tuple[str, str], ...]:
    """The kernel parameters: the engine's own, then those asked for. Raises SystemFailure in runc's words."""
    asked = host_config["Sysctls"]
    if not asked:
        return default
    present = (*namespaces.own, *(name for name, _, _ in namespaces.joined))
    try:
        for name in asked:
            sysctls.check(name, present)
    except Invalid as error:  # docker finds out at the start, and reports it as a failure of its own
        raise SystemFailure(f"{NOT_CREATED}{BY_RUNC}{error}") from error
    return (*((name, value) for name, value in default if name not in asked), *asked.items())


def mounts_of(host_config: HostConfig, namespaces: joins.Namespaces) -> tuple[Mount, ...]:
    """The mounts that every container has, in the form that this one's options give them."""
    usual = mounts.default_mounts(host_config["ShmSize"])
    if host_config["IpcMode"] not in _OWN_SHM:
        shm = joins.shm_of(host_config, namespaces)
        shown = (shm if mount.target == "/dev/shm" else mount for mount in usual)
        usual = tuple(mount for mount in shown if mount is not None)
    if host_config["IpcMode"] == "host" and not userns.is_hosts():
        usual = tuple(mount for mount in map(_queues_of_host, usual) if mount is not None)
    if host_config["Privileged"]:
        return tuple(_writable(mount) if mount.kind in ("sysfs", "cgroup") else mount for mount in usual)
    if host_config["SecurityOpt"] and security(host_config["SecurityOpt"]).writable_cgroups:
        return tuple(_writable(mount) if mount.kind == "cgroup" else mount for mount in usual)
    return usual


def _queues_of_host(mount: Mount) -> Mount | None:
    """For a user, who cannot mount the host's message queues: those that the host has mounted, or none."""
    if mount.kind != "mqueue" or not os.path.ismount(mount.target):
        return None if mount.kind == "mqueue" else mount
    return Mount("bind", mount.target, mount.target, mount.flags, propagation="rprivate")


def _writable(mount: Mount) -> Mount:
    flags = tuple(name for name in mount.flags if name != "ro")
    return Mount(mount.kind, mount.source, mount.target, flags, mount.data, mount.propagation)


def injected_of(host_config: HostConfig, directories: tuple[str, ...]) -> "Edits | None":
    """What the DeviceRequests bring: those of the driver `cdi`; None where there are none.

    directories: where CDI files are, empty for a daemon without that driver. GPUs (`--gpus`) are those of CDI files,
    too. There is no other driver; as in docker, such a request is refused at the start. Raises SystemFailure, and
    Invalid, in docker's words.
    """
    names: list[str] = []
    for request in host_config["DeviceRequests"] or ():
        driver = request.get("Driver") or ""
        if directories and (kinds := _gpu_kinds(request, driver)):
            gpus = cdispecs.gpus(directories, request, kinds)
            if gpus is not None:
                names += gpus
                continue
            if _AMDS in kinds:
                raise SystemFailure("failed to discover GPU vendor from CDI: no known GPU vendor found")
        if driver != _CDI or not directories:
            wanted = " ".join(f"[{' '.join(each or ())}]" for each in request.get("Capabilities") or ())
            raise SystemFailure(f'could not select device driver "{driver}" with capabilities: [{wanted}]')
        for key, what in (("Count", "count"), ("Options", "options")):
            if request.get(key):
                raise Invalid(f"unexpected {what} in CDI device request")
        names += request.get("DeviceIDs") or ()
    return cdispecs.injected(directories, names) if names else None


def _gpu_kinds(request: DeviceRequest, driver: str) -> list[str]:
    """The kinds of GPUs whose driver of docker's takes a request: by its name, or by what it is to be capable of."""
    if driver:
        return [kind for kind, names, _ in _GPUS if driver in names]
    asked = request.get("Capabilities") or ()
    return [kind for kind, _, abilities in _GPUS if any(each and abilities.issuperset(each) for each in asked)]


def devices_of(host_config: HostConfig, injected: "Edits | None" = None) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """The device nodes of the container, and the rules for devices besides the usual ones. Raises SystemFailure.

    A privileged container needs no rules, as it may use all devices. injected: see `injected_of`
    """
    privileged, asked = host_config["Privileged"], host_config["Devices"]
    rules = tuple(host_config["DeviceCgroupRules"] or ())
    if not privileged and not asked and injected is None:
        return mounts.DEFAULT_DEVICES, rules
    nodes = {device.path: device for device in mounts.DEFAULT_DEVICES}
    if privileged and userns.is_hosts():  # else it gets no more devices than others, as with docker
        nodes |= {device.path: device for device in _walk("/dev") if device.path not in nodes}
    allowed = []
    for mapping in asked or ():
        on_host = mapping.get("PathOnHost") or ""
        inside = mapping.get("PathInContainer") or on_host
        for device in _mapped(on_host, inside):
            nodes[device.path] = device
            access = "".join(mark for mark in "rwm" if mark in (mapping.get("CgroupPermissions") or ""))
            if access:
                allowed.append(f"{device.kind} {device.major}:{device.minor} {access}")
    for node in injected.nodes if injected is not None else ():
        nodes[node.path] = device = _injected(node)
        allowed.append(f"{device.kind} {device.major}:{device.minor} {node.access}")
    return tuple(nodes.values()), (*allowed, *rules)


def _injected(node: "Node") -> Device:
    """The device of a node in a CDI file: what the file leaves open is as on the host. Raises SystemFailure."""
    there = None
    if not node.kind or node.major is None or node.minor is None:
        (there,) = _mapped(node.source, node.path)[:1]
    kind, major, minor = node.kind, node.major, node.minor
    if there is not None:
        kind, major, minor = kind or there.kind, there.major if major is None else major, minor
        minor = there.minor if minor is None else minor
    mode = node.mode if node.mode is not None else there.mode if there is not None else 0o666
    return Device(
        absolute(node.path), kind, major or 0, minor or 0, stat.S_IMODE(mode), node.uid or 0, node.gid or 0, node.source
    )


def _mapped(on_host: str, inside: str) -> list[Device]:
    """The devices of one mapping: one, or all in a directory. Raises SystemFailure in docker's words."""
    problem = "not a device node"
    try:
        found = os.stat(on_host)
    except OSError as error:
        problem = reasons.of(error)
    else:
        device = _device(absolute(inside), found, os.path.realpath(on_host))
        if device is not None:
            return [device]
        if stat.S_ISDIR(found.st_mode):
            top = os.path.realpath(on_host)
            prefix = absolute(inside)
            devices = [_moved(device, prefix + device.path.removeprefix(top)) for device in _walk(top, skipping=False)]
            if devices:
                return devices
    raise SystemFailure(f'error gathering device information while adding custom device "{on_host}": {problem}')


def _walk(top: str, *, skipping: bool = True) -> list[Device]:
    """The device nodes below a directory of the host; symbolic links are neither listed nor followed."""
    found = []
    for directory, names, files in os.walk(top):
        if skipping:
            names[:] = [name for name in names if name not in _SKIPPED_DIRECTORIES]
        for name in sorted(files):
            path = f"{directory}/{name}"
            try:
                device = _device(path, os.lstat(path))
            except FileNotFoundError:  # the device was removed meanwhile
                continue
            if device is not None and not (skipping and path in _SKIPPED):
                found.append(device)
    return found


def _device(path: str, found: os.stat_result, source: str = "") -> Device | None:
    """The device with this status on the host, where its path is `source` (empty: the same); None for another file."""
    kind = _KINDS.get(stat.S_IFMT(found.st_mode))
    if kind is None:
        return None
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return Device(path, kind, major, minor, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid, source)


def _moved(device: Device, path: str) -> Device:
    source = device.source or device.path
    return Device(path, device.kind, device.major, device.minor, device.mode, device.uid, device.gid, source)

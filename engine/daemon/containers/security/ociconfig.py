"""Writes a Sandbox as the config.json of an OCI runtime, for containers that ask for another runtime than this engine.

Pure; loaded by the first such container. The files of the container are mounted before the runtime is called
(`birth.viaruntime`), so the config has only the mounts that belong to its namespaces. The user is filled in there too.
Source: the OCI runtime specification 1.0.2, config.md and config-linux.md.
"""

import json
from collections.abc import Sequence

from engine.daemon.jsontext import Object
from engine.errors import SystemFailure
from engine.sandbox import seccomp
from engine.sandbox.spec import Device, Hook, Mount, Sandbox
from engine.sandbox.users import Identity, with_home

CGROUPS = "/engine-runtimes"
"""The parent of the cgroups in which runtimes begin; a container leaves its own before its command runs."""
_NAMES = {"net": "network"}
_TOPS = ("/dev", "/proc", "/sys")
_UNLIMITED = 2**64 - 1


def divided(sandbox: Sandbox) -> tuple[tuple[Mount, ...], tuple[Mount, ...]]:
    """(the mounts that are made before the runtime is called, those that the runtime makes), each in its order.

    Raises SystemFailure for a mount of the client's that no runtime can make.
    """
    before = tuple(mount for mount in sandbox.mounts if not _is_runtimes(mount))
    runtimes = tuple(mount for mount in sandbox.mounts if _is_runtimes(mount))
    for mount in runtimes:
        if mount.holder or mount.kind == "image" or (mount.asked and (mount.kind != "bind" or mount.subpath)):
            raise SystemFailure(f"a container of another runtime cannot have a {mount.kind} mount on {mount.target}")
    return before, runtimes


def _is_runtimes(mount: Mount) -> bool:
    """Whether the runtime has to make a mount: it is of the container's namespaces, or lies below such a one."""
    return any(mount.target == top or mount.target.startswith(f"{top}/") for top in _TOPS)


def text(sandbox: Sandbox, profile: str, name: str, hooks: Sequence[Hook] = ()) -> str:
    """The config of a sandbox.

    profile: its seccomp profile: `builtin`, `unconfined` or a profile's text; name: of its cgroup
    hooks: those of its CDI devices
    """
    _, mounts = divided(sandbox)
    linux: Object = {
        "cgroupsPath": f"{CGROUPS}/{name}",
        "namespaces": _namespaces(sandbox),
        "maskedPaths": list(sandbox.masked_paths),
        "readonlyPaths": list(sandbox.readonly_paths),
        "sysctl": dict(sandbox.sysctls),
        "devices": [_device(each) for each in sandbox.devices],
        # Which devices may be used is said by the cgroup of the engine's own.
        "resources": {"devices": [{"allow": True, "access": "rwm"}]},
    }
    filter_ = seccomp.described(profile, sandbox.capabilities)
    if filter_ is not None:
        linux["seccomp"] = filter_
    config: Object = {
        "ociVersion": "1.0.2",
        "root": {"path": sandbox.root.upper, "readonly": sandbox.root.readonly},
        "hostname": sandbox.hostname,
        "process": _process(sandbox),
        "mounts": [_mount(each) for each in mounts],
        "linux": linux,
    }
    if hooks:
        points = dict.fromkeys(each.point for each in hooks)
        config["hooks"] = {point: [_hook(each) for each in hooks if each.point == point] for point in points}
    if sandbox.root.label:
        linux["mountLabel"] = sandbox.root.label
    if "uts" not in sandbox.namespaces:
        del config["hostname"]
    return json.dumps(config)


def process_text(sandbox: Sandbox, who: Identity) -> str:
    """A further process in a container, for the runtime's exec."""
    process = _process(sandbox)
    process["user"] = {"uid": who.uid, "gid": who.gid, "additionalGids": list(who.groups)}
    process["env"] = with_home(sandbox.env, who.home)
    return json.dumps(process)


def _namespaces(sandbox: Sandbox) -> list[Object]:
    own = [{"type": _NAMES.get(each, each)} for each in sandbox.namespaces]
    return own + [{"type": _NAMES.get(name, name), "path": f"/proc/{pid}/ns/{name}"} for name, pid, _ in sandbox.joined]


def _process(sandbox: Sandbox) -> Object:
    held = list(sandbox.capabilities)
    process: Object = {
        "terminal": sandbox.tty,
        "args": list(sandbox.argv),
        "env": list(sandbox.env),
        "cwd": sandbox.cwd or "/",
        "capabilities": {"bounding": held, "effective": held, "permitted": held},
        "rlimits": [
            {"type": f"RLIMIT_{each.name.upper()}", "soft": _limit(each.soft), "hard": _limit(each.hard)}
            for each in sandbox.rlimits
        ],
        "noNewPrivileges": sandbox.no_new_privileges,
    }
    for key, value in (("apparmorProfile", sandbox.apparmor), ("selinuxLabel", sandbox.label)):
        if value:
            process[key] = value
    if sandbox.oom_score_adj is not None:
        process["oomScoreAdj"] = sandbox.oom_score_adj
    return process


def _hook(hook: Hook) -> Object:
    shown: Object = {"path": hook.path, "args": list(hook.args), "env": list(hook.env)}
    return {**shown, "timeout": hook.timeout} if hook.timeout else shown


def _limit(number: int) -> int:
    return _UNLIMITED if number == -1 else number


def _device(device: Device) -> Object:
    return {
        "path": device.path,
        "type": device.kind,
        "major": device.major,
        "minor": device.minor,
        "fileMode": device.mode,
        "uid": device.uid,
        "gid": device.gid,
    }


def _mount(mount: Mount) -> Object:
    options = [*mount.flags, *filter(None, mount.data.split(","))]
    if mount.kind == "bind":
        options += [mount.propagation or "rprivate"]
    return {"destination": mount.target, "type": mount.kind, "source": mount.source, "options": options}

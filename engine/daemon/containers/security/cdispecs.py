"""Finds the devices that CDI files describe (Container Device Interface), and what each of them changes in a container.

Runs in the daemon's request threads; loaded by the first container that asks for such a device, and by GET /info. The
files are the administrator's. They are read anew each time, because a device may come and go. A file in a later
directory counts more than one in an earlier directory; a device that two files of one directory describe is nobody's.
What this engine cannot do (network devices, cache partitions) is refused when a container asks for the device.
Source: the specification at github.com/cncf-tags/container-device-interface.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from engine.annotating import Any
from engine.daemon.containers.shapes import DeviceRequest
from engine.dataclass import dataclass
from engine.errors import Invalid, SystemFailure
from engine.kernel import reasons
from engine.protocols import plainyaml
from engine.sandbox.spec import Hook, Mount

_LARGEST = 1 << 20
_MOST_FILES = 1000
_VENDOR = r"[A-Za-z][A-Za-z0-9_.-]*"
_KIND = re.compile(rf"{_VENDOR}/{_VENDOR}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")
_NODE_KINDS = frozenset({"", "b", "c", "u"})
_FLAGS = frozenset({"ro", "rbind", "bind", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"})
_NEEDLESS = frozenset({"rw", "suid", "dev", "exec"})
_PROPAGATIONS = frozenset({"private", "rprivate", "slave", "rslave", "shared", "rshared"})
_EDITS = frozenset({"env", "deviceNodes", "mounts", "additionalGids", "hooks"})
# Not `poststop`: a runtime is not asked again once its container runs.
_HOOKS = frozenset({"prestart", "createRuntime", "createContainer", "startContainer", "poststart"})
_REFUSED = {"intelRdt": "divides no caches", "netDevices": "moves no network devices"}


@dataclass(frozen=True, slots=True)
class Node:
    """One device node. kind, major, minor, mode, uid, gid: None (kind: empty) as on the host

    path: in the container; source: on the host; access: some of `rwm`
    """

    path: str
    source: str
    kind: str
    major: int | None
    minor: int | None
    mode: int | None
    access: str
    uid: int | None
    gid: int | None


@dataclass(frozen=True, slots=True)
class Edits:
    """What devices change in a container. env: `NAME=value` each; groups: numbers"""

    env: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    mounts: tuple[Mount, ...] = ()
    groups: tuple[str, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def with_more(self, other: "Edits") -> "Edits":
        """Both, those of `other` last."""
        return Edits(
            self.env + other.env,
            self.nodes + other.nodes,
            self.mounts + other.mounts,
            self.groups + tuple(each for each in other.groups if each not in self.groups),
            self.hooks + other.hooks,
        )


@dataclass(frozen=True, slots=True)
class Described:
    """A device as a file describes it; the edits are read when a container asks for it. common: of all in the file

    annotations: the file's and the device's own
    """

    file: str
    common: Any
    own: Any
    annotations: dict[str, str]


def found(directories: Sequence[str]) -> tuple[dict[str, Described], list[str]]:
    """The devices by their whole names `vendor/class=name`, and a warning for each file that cannot be used."""
    devices: dict[str, Described] = {}
    warnings: list[str] = []
    for directory in directories:
        here: dict[str, Described] = {}
        twice: set[str] = set()
        for path in _files(directory, warnings):
            try:
                described = list(_devices(path))
            except (Invalid, OSError) as error:
                warnings.append(f"CDI: Error associated with spec file {path}: {reasons.whole(error)}")
                continue
            for name, device in described:
                if name in here:
                    twice.add(name)
                    warnings.append(f"CDI: {path}: {name} is described in {here[name].file} too")
                here[name] = device
        devices = {name: each for name, each in (devices | here).items() if name not in twice}
    return devices, warnings


def injected(directories: Sequence[str], names: Iterable[str]) -> Edits:
    """What these devices change together: what is common to a file's devices comes once, before each one's own.

    Raises SystemFailure in docker's words.
    """
    devices, _ = found(directories)
    asked = list(dict.fromkeys(names))
    if missing := [name for name in asked if name not in devices]:
        raise SystemFailure(f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}")
    whole, seen = Edits(), set[str]()
    for name in asked:
        device = devices[name]
        try:
            if device.file not in seen:
                whole = whole.with_more(_edits(device.common))
            whole = whole.with_more(_edits(device.own))
        except Invalid as error:
            raise SystemFailure(f"CDI device injection failed: {name} of {device.file}: {error}") from error
        seen.add(device.file)
    return whole


def gpus(directories: Sequence[str], request: DeviceRequest, kinds: Sequence[str]) -> list[str] | None:
    """The names of the devices of a request for GPUs, by its ids or its count; None where no file describes a GPU.

    kinds: those that may be meant; the first one that is there is. Raises SystemFailure in docker's words.
    """
    devices, _ = found(directories)
    kind = next((each for each in kinds if any(name.startswith(f"{each}=") for name in devices)), None)
    if kind is None:
        return None
    ids, count = request.get("DeviceIDs") or [], request.get("Count") or 0
    if ids and count:
        raise SystemFailure("cannot set both Count and DeviceIDs on device request")
    if not ids:
        ids = ["all"] if count < 0 else [str(number) for number in range(min(count, len(devices)))]
    return [name if "=" in name else f"{kind}={name}" for name in ids]


def _files(directory: str, warnings: list[str]) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith((".json", ".yaml", ".yml")))
    except FileNotFoundError:
        return []
    except OSError as error:
        warnings.append(f"CDI: {directory} cannot be read: {reasons.of(error)}")
        return []
    if len(names) > _MOST_FILES:
        warnings.append(f"CDI: {directory} has more than {_MOST_FILES} files: the others are passed over")
    return [os.path.join(directory, name) for name in names[:_MOST_FILES]]


def _devices(path: str) -> Iterator[tuple[str, Described]]:
    """The devices of one file. Raises Invalid, OSError."""
    with open(path, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise Invalid(f"it is larger than {_LARGEST} bytes")
    try:
        text = data.decode()
        document = json.loads(text) if path.endswith(".json") else plainyaml.load(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(str(error)) from error
    document = _object(document, "the file")
    kind = document.get("kind")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise Invalid(f"invalid kind {kind!r}")
    devices = document.get("devices")
    if not isinstance(devices, list):
        raise Invalid("it has no list of devices")
    common = document.get("containerEdits") or {}
    shared = _annotations(document)
    for each in devices:
        device = _object(each, "a device")
        name = device.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Invalid(f"invalid device name {name!r}")
        notes = shared | _annotations(device)
        yield f"{kind}={name}", Described(path, common, device.get("containerEdits") or {}, notes)


def _annotations(value: dict[str, Any]) -> dict[str, str]:
    found = _object(value.get("annotations") or {}, "annotations")
    if not all(isinstance(each, str) for each in found.values()):
        raise Invalid("annotations are not texts")
    return found


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Invalid(f"{what} is not an object")
    return value


def _edits(value: Any) -> Edits:
    """The containerEdits of a file or of a device. Raises Invalid."""
    edits = _object(value, "containerEdits")
    for name, text in _REFUSED.items():
        if edits.get(name):
            raise Invalid(f"it has {name}, and this engine {text}")
    if others := sorted(edits.keys() - _EDITS - _REFUSED.keys()):
        raise Invalid(f"containerEdits has the unknown {', '.join(others)}")
    env = _list(edits, "env")
    if not all(isinstance(each, str) and each.partition("=")[1] and "\0" not in each for each in env):
        raise Invalid("env is not a list of NAME=value")
    groups = _list(edits, "additionalGids")
    if not all(type(each) is int and 0 <= each < 2**32 - 1 for each in groups):
        raise Invalid("additionalGids is not a list of group ids")
    return Edits(
        tuple(env),
        tuple(map(_node, _list(edits, "deviceNodes"))),
        tuple(map(_mount, _list(edits, "mounts"))),
        tuple(str(each) for each in groups if each),
        tuple(map(_hook, _list(edits, "hooks"))),
    )


def _list(edits: dict[str, Any], name: str) -> list[Any]:
    value = edits.get(name) or []
    if not isinstance(value, list):
        raise Invalid(f"{name} is not a list")
    return value


def _hook(value: Any) -> Hook:
    hook = _object(value, "a hook")
    point, timeout = hook.get("hookName"), hook.get("timeout") or 0
    if point not in _HOOKS:
        raise Invalid(f"it has a hook {point!r}, which this engine has no runtime run")
    if type(timeout) is not int or not 0 <= timeout < 2**31:
        raise Invalid(f"the hook {point} has an invalid timeout")
    words = [_list(hook, "args"), _list(hook, "env")]
    if not all(isinstance(each, str) and "\0" not in each for part in words for each in part):
        raise Invalid(f"args and env of the hook {point} are not lists of texts")
    return Hook(str(point), _path(hook, "path"), tuple(words[0]), tuple(words[1]), timeout)


def _node(value: Any) -> Node:
    node = _object(value, "a device node")
    path = _path(node, "path")
    kind = node.get("type") or ""
    if kind not in _NODE_KINDS:
        raise Invalid(f"{path} has the type {kind!r}, which is no device's")
    access = node.get("permissions") or "rwm"
    if not isinstance(access, str) or not set(access) <= set("rwm"):
        raise Invalid(f"{path} has invalid permissions")
    numbers = {name: node.get(name) for name in ("major", "minor", "fileMode", "uid", "gid")}
    for name, number in numbers.items():
        if number is not None and (type(number) is not int or not 0 <= number < 2**32):
            raise Invalid(f"{path} has an invalid {name}")
    return Node(
        path,
        _path(node, "hostPath") if node.get("hostPath") else path,
        "c" if kind == "u" else kind,
        numbers["major"],
        numbers["minor"],
        numbers["fileMode"],
        access,
        numbers["uid"],
        numbers["gid"],
    )


def _path(value: dict[str, Any], name: str) -> str:
    path = value.get(name)
    if not isinstance(path, str) or not path.startswith("/") or "\0" in path:
        raise Invalid(f"{name} is not an absolute path: {path!r}")
    return path


def _mount(value: Any) -> Mount:
    mount = _object(value, "a mount")
    target = _path(mount, "containerPath")
    kind = mount.get("type") or "bind"
    options = mount.get("options") or []
    if not isinstance(options, list) or not all(isinstance(each, str) for each in options):
        raise Invalid(f"the options of {target} are not a list of words")
    flags = [each for each in options if each in _FLAGS]
    propagation = next((each for each in reversed(options) if each in _PROPAGATIONS), "")
    data = [each for each in options if each not in _FLAGS | _NEEDLESS | _PROPAGATIONS]
    if kind == "tmpfs":
        return Mount("tmpfs", "tmpfs", target, tuple(flags), ",".join(data), propagation, asked=True)
    if kind not in ("bind", "none"):
        raise Invalid(f"the mount on {target} has the type {kind!r}: there are bind and tmpfs")
    if data:
        raise Invalid(f"the mount on {target} has the unknown options {', '.join(data)}")
    if "bind" not in flags and "rbind" not in flags:
        flags.append("rbind")
    return Mount("bind", _path(mount, "hostPath"), target, tuple(flags), propagation=propagation, asked=True)

"""Parse and check the mount requests of HostConfig (Binds, Mounts, Tmpfs and VolumesFrom) as dockerd does.

Pure but for asking whether a bind's source exists; runs in the daemon's request threads. The result is a mount point of
the API with one key more, `Spec`, which the engine needs and the API does not show. Error texts are dockerd's.
"""

import os
import posixpath

from engine.annotating import Final
from engine.daemon.containers.shapes import Mount, MountPoint, MountSpec, TmpfsOptions
from engine.errors import EngineError, Invalid, SystemFailure
from engine.kernel import reasons

# The words of a bind's mode, each with its group. A mode may have one word of each group.
_MODES = {
    "rw": "access",
    "ro": "access",
    "z": "label",
    "Z": "label",
    "nocopy": "copy",
    "consistent": "consistency",
    "cached": "consistency",
    "delegated": "consistency",
    "private": "propagation",
    "rprivate": "propagation",
    "shared": "propagation",
    "rshared": "propagation",
    "slave": "propagation",
    "rslave": "propagation",
}
_PROPAGATIONS = frozenset(word for word, group in _MODES.items() if group == "propagation")
_DEFAULT_PROPAGATION = "rprivate"
# Type of a mount → the option groups that may come with it.
_OPTIONS = {
    "bind": frozenset({"BindOptions"}),
    "volume": frozenset({"VolumeOptions"}),
    "tmpfs": frozenset({"TmpfsOptions"}),
    "image": frozenset({"ImageOptions"}),
}
_BIND_SWITCHES: Final = (
    "NonRecursive",
    "CreateMountpoint",
    "ReadOnlyNonRecursive",
    "ReadOnlyForceRecursive",
)
_ALL_OPTIONS: Final = ("BindOptions", "VolumeOptions", "TmpfsOptions", "ImageOptions")
_SOURCE_NEEDED = frozenset({"bind", "image"})
_TMPFS_OPTIONS = frozenset({"exec", "noexec"})
_SIZES = (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10))
_SUBPATH = "subpath must be a relative path within the volume"

# Options of a tmpfs: the MS_* flag (`sandbox.mounts.FLAGS`) that each word means, and whether it sets or clears it.
_TMPFS_FLAGS = {
    "ro": ("ro", True),
    "rw": ("ro", False),
    "suid": ("nosuid", False),
    "nosuid": ("nosuid", True),
    "dev": ("nodev", False),
    "nodev": ("nodev", True),
    "exec": ("noexec", False),
    "noexec": ("noexec", True),
    "sync": ("sync", True),
    "async": ("sync", False),
    "dirsync": ("dirsync", True),
    "atime": ("noatime", False),
    "noatime": ("noatime", True),
    "diratime": ("nodiratime", False),
    "nodiratime": ("nodiratime", True),
    "relatime": ("relatime", True),
    "norelatime": ("relatime", False),
    "strictatime": ("strictatime", True),
    "nostrictatime": ("strictatime", False),
}
_TMPFS_DEFAULTS = ("noexec", "nosuid", "nodev")
_TMPFS_DATA = frozenset({"size", "mode", "uid", "gid", "nr_inodes", "nr_blocks", "mpol"})


class UncheckedByDockerd(EngineError):
    """A bad bind or security option. dockerd finds it late and answers 500, where a 400 would be right."""


def point(
    kind: str,
    destination: str,
    spec: MountSpec,
    *,
    name: str = "",
    source: str = "",
    driver: str = "",
    mode: str = "",
    writable: bool = True,
    propagation: str = "",
) -> MountPoint:
    """A mount point: the keys that the API shows, and `Spec` for those that it does not show."""
    return {
        "Type": kind,
        "Name": name,
        "Source": source,
        "Destination": destination,
        "Driver": driver,
        "Mode": mode,
        "RW": writable,
        "Propagation": propagation,
        "Spec": spec,
    }


# HostConfig.Mounts


def check_mounts(mounts: list[Mount]) -> None:
    """Raise Invalid for the first wrong entry of HostConfig.Mounts."""
    for mount in mounts:
        problem = _problem(mount)
        if problem:
            raise Invalid(f'invalid mount config for type "{mount.get("Type") or ""}": {problem}')


def _problem(mount: Mount) -> str | None:
    kind, source = mount.get("Type") or "", mount.get("Source") or ""
    problem = _problem_of_target(mount.get("Target") or "")
    if problem:
        return problem
    if kind not in _OPTIONS:
        return "mount type unknown"
    for key in _ALL_OPTIONS:
        if mount.get(key) is not None and key not in _OPTIONS[kind]:
            return f"field {key} must not be specified"
    if kind == "tmpfs" and source:
        return "field Source must not be specified"
    if kind in _SOURCE_NEEDED and not source:
        return "field Source must not be empty"
    return _PROBLEMS[kind](mount, source)


def _problem_of_target(target: str) -> str | None:
    if not target:
        return "field Target must not be empty"
    if clean(target) == "/":
        return "invalid specification: destination can't be '/'"
    if not target.startswith("/"):
        return f"invalid mount path: '{target}' mount path must be absolute"
    return None


def _problem_of_bind(mount: Mount, source: str) -> str | None:
    options = mount.get("BindOptions") or {}
    propagation = options.get("Propagation") or ""
    if propagation and propagation not in _PROPAGATIONS:
        return f"invalid propagation mode: {propagation}"
    if not source.startswith("/"):
        return f"invalid mount path: '{source}' mount path must be absolute"
    try:
        os.stat(source)
    except FileNotFoundError:
        return None if options.get("CreateMountpoint") else f"bind source path does not exist: {source}"
    except OSError as error:
        return f"stat {source}: {reasons.of(error)}"
    return None


def _problem_of_volume(mount: Mount, source: str) -> str | None:
    subpath = (mount.get("VolumeOptions") or {}).get("Subpath") or ""
    if subpath and not source:
        return "must not set Subpath when using anonymous volumes"
    if subpath and not _is_local(subpath):
        return _SUBPATH
    if mount.get("ReadOnly") and not source:
        return "must not set ReadOnly mode when using anonymous volumes"
    return None


def _problem_of_tmpfs(mount: Mount, _source: str) -> str | None:
    for words in (mount.get("TmpfsOptions") or {}).get("Options") or ():
        if not words or len(words) > 2:
            return "invalid option array length"
        if words[0] not in _TMPFS_OPTIONS:
            return f"invalid option: {words[0]}"
    return None


def _problem_of_image(mount: Mount, _source: str) -> str | None:
    subpath = (mount.get("ImageOptions") or {}).get("Subpath") or ""
    return _SUBPATH if subpath and not _is_local(subpath) else None


_PROBLEMS = {
    "bind": _problem_of_bind,
    "volume": _problem_of_volume,
    "tmpfs": _problem_of_tmpfs,
    "image": _problem_of_image,
}


def _is_local(path: str) -> bool:
    """Whether a relative path stays below its start, judged by its text alone (Go's filepath.IsLocal)."""
    return not path.startswith("/") and posixpath.normpath(path).split("/")[0] != ".."


def clean(path: str) -> str:
    """Go's path.Clean: posixpath.normpath, with two leading slashes made one."""
    cleaned = posixpath.normpath(path)
    return cleaned[1:] if cleaned.startswith("//") else cleaned


def parse_mount(mount: Mount) -> MountPoint:
    """The mount point of an entry that `check_mounts` has passed; the Source of a volume is not known yet."""
    kind, source = mount.get("Type") or "", mount.get("Source") or ""
    writable = not mount.get("ReadOnly")
    return _PARSERS[kind](mount, source, clean(mount.get("Target") or ""), writable)


def _parse_bind(mount: Mount, source: str, target: str, writable: bool) -> MountPoint:
    options = mount.get("BindOptions") or {}
    spec: MountSpec = {}
    for key in _BIND_SWITCHES:
        if options.get(key):
            spec[key] = True
    return _bind_point(source, target, writable, options.get("Propagation") or "", spec)


def _bind_point(
    source: str, target: str, writable: bool, propagation: str, spec: MountSpec, mode: str = ""
) -> MountPoint:
    if not propagation:
        spec["DefaultPropagation"] = True
    return point(
        "bind",
        target,
        spec,
        source=clean(source),
        mode=mode,
        writable=writable,
        propagation=propagation or _DEFAULT_PROPAGATION,
    )


def _parse_volume(mount: Mount, source: str, target: str, writable: bool) -> MountPoint:
    options = mount.get("VolumeOptions") or {}
    driver = options.get("DriverConfig") or {}
    spec: MountSpec = {
        "Copy": not options.get("NoCopy"),
        "Anonymous": not source,
        "Subpath": options.get("Subpath") or "",
        "Labels": options.get("Labels"),
        "DriverOptions": driver.get("Options"),
    }
    return point("volume", target, spec, name=source, driver=driver.get("Name") or "", writable=writable)


def _parse_tmpfs(mount: Mount, _source: str, target: str, writable: bool) -> MountPoint:
    text = tmpfs_text(mount.get("TmpfsOptions") or {}, writable)
    return point("tmpfs", target, {"Data": text}, writable=writable)


def _parse_image(mount: Mount, source: str, target: str, _writable: bool) -> MountPoint:
    subpath = (mount.get("ImageOptions") or {}).get("Subpath") or ""
    return {**point("image", target, {"Subpath": subpath}, name=source, writable=False), "Propagation": "rprivate"}


_PARSERS = {"bind": _parse_bind, "volume": _parse_volume, "tmpfs": _parse_tmpfs, "image": _parse_image}


# HostConfig.Binds


def check_binds(binds: list[str], mounts: list[Mount], tmpfs: dict[str, str] | None = None) -> None:
    """Raise for a bind that cannot be parsed (dockerd: 500), and Invalid for a target that is named twice."""
    taken = set()
    for bind in binds:
        target = parse_bind(bind)["Destination"]
        if target in taken or target in (tmpfs or ()):
            raise Invalid(f"Duplicate mount point: {target}")
        taken.add(target)
    for mount in mounts:
        target = clean(mount["Target"])
        if target in taken:
            raise Invalid(f"Duplicate mount point: {target}")
        taken.add(target)


def parse_bind(bind: str, volume_driver: str = "") -> MountPoint:
    """The mount point of `[source:]target[:mode]`. Raises UncheckedByDockerd."""
    parts = bind.split(":", 3)
    # A mode that follows the target alone would be for a volume without a name.
    if not parts[0] or len(parts) > 3 or (len(parts) == 2 and _words(parts[1]) is not None):
        raise UncheckedByDockerd(f"invalid volume specification: '{bind}'")
    source = parts[0] if len(parts) > 1 else ""
    target = parts[min(1, len(parts) - 1)]
    mode = parts[2] if len(parts) > 2 else ""
    words = _words(mode)
    if words is None:
        raise UncheckedByDockerd(f"invalid mode: {mode}")
    kind = "bind" if source.startswith("/") else "volume"
    problem = _problem_of_target(target)
    if not problem and kind == "bind" and "copy" in words:
        problem = "field VolumeOptions must not be specified"
    if not problem and kind == "volume" and "propagation" in words:
        problem = "field BindOptions must not be specified"
    writable = words.get("access") != "ro"
    if not problem and kind == "volume" and not source and not writable:
        problem = "must not set ReadOnly mode when using anonymous volumes"
    if problem:
        raise UncheckedByDockerd(
            f"invalid volume specification: '{bind}': invalid mount config for type \"{kind}\": {problem}"
        )
    target = clean(target)
    if kind == "volume":
        spec: MountSpec = {"Copy": "copy" not in words, "Anonymous": not source}
        return point("volume", target, spec, name=source, driver=volume_driver, mode=mode, writable=writable)
    return _bind_point(source, target, writable, words.get("propagation", ""), {"CreateMountpoint": True}, mode)


def _words(mode: str) -> dict[str, str] | None:
    """The words of a mode by their groups; None for an invalid mode, no words for an empty one."""
    words: dict[str, str] = {}
    for word in mode.split(",") if mode else ():
        group = _MODES.get(word)
        if group is None or group in words:
            return None
        words[group] = word
    return words if mode else {}


# HostConfig.VolumesFrom


def parse_volumes_from(text: str) -> tuple[str, bool]:
    """The container, and whether its mounts may be written, of `container[:mode]`. Raises Invalid."""
    if not text:
        raise Invalid("volumes-from specification cannot be an empty string")
    name, _, mode = text.partition(":")
    words = _words(mode)
    if words is None or words.keys() & {"propagation", "copy"}:
        raise Invalid(f"invalid mode: {mode}")
    return name, words.get("access") != "ro"


# Tmpfs


def check_tmpfs(tmpfs: dict[str, str]) -> None:
    """Raise Invalid for a target of HostConfig.Tmpfs that is not absolute, or is the root."""
    for target in tmpfs:
        if clean(target) == "/":
            raise Invalid("invalid specification: destination can't be '/'")
        if not target.startswith("/"):
            raise Invalid(f"invalid mount path: '{target}' mount path must be absolute")


def tmpfs_text(options: TmpfsOptions, writable: bool) -> str:
    """TmpfsOptions as the text that HostConfig.Tmpfs would have."""
    words = [] if writable else ["ro"]
    if options.get("Mode"):
        words.append(f"mode={options['Mode']:o}")
    if size := options.get("SizeBytes"):
        suffix, unit = next(((name, unit) for name, unit in _SIZES if size % unit == 0), ("", 1))
        words.append(f"size={size // unit}{suffix}")
    words += ["=".join(option or ()) for option in options.get("Options") or ()]
    return ",".join(words)


def tmpfs_options(text: str) -> tuple[tuple[str, ...], str, str]:
    """(flags, data, propagation) of a tmpfs with these options added to docker's defaults.

    Of two words on one matter the last counts. Raises SystemFailure in the words that dockerd has at start.
    """
    flags = dict.fromkeys(_TMPFS_DEFAULTS, True)
    data: dict[str, str] = {}
    propagation, wrong = "", []
    for word in text.split(",") if text else ():
        name, equals, value = word.partition("=")
        if word in _TMPFS_FLAGS:
            flag, on = _TMPFS_FLAGS[word]
            flags[flag] = on
        elif word in _PROPAGATIONS:
            propagation = word
        elif equals and name in _TMPFS_DATA:
            data.pop(name, None)
            data[name] = value
        elif word != "defaults":
            wrong.append(name)
    if wrong:  # dockerd reads from the end
        raise SystemFailure(f'invalid tmpfs option "{wrong[-1]}"')
    return (
        tuple(flag for flag, on in flags.items() if on),
        ",".join(f"{name}={value}" for name, value in data.items()),
        propagation,
    )

"""Checks of Binds, Mounts and Tmpfs as texts: what can be refused before anything is mounted.

Pure but for asking whether a bind's source exists; runs in the daemon's request threads. Texts are dockerd's.
"""

import os
import posixpath

from engine.errors import EngineError, Invalid

_PROPAGATIONS = frozenset({"private", "rprivate", "shared", "rshared", "slave", "rslave"})
_MODES = _PROPAGATIONS | {"rw", "ro", "z", "Z", "nocopy", "volume-nocopy", "consistent", "cached", "delegated"}
# Type of a mount → the option groups that may come with it.
_OPTIONS = {
    "bind": frozenset({"BindOptions"}),
    "volume": frozenset({"VolumeOptions"}),
    "tmpfs": frozenset({"TmpfsOptions"}),
    "image": frozenset({"ImageOptions"}),
}
_ALL_OPTIONS = ("BindOptions", "VolumeOptions", "TmpfsOptions", "ImageOptions")
_SOURCE_NEEDED = frozenset({"bind", "image"})


class UncheckedByDockerd(EngineError):
    """A bad bind or security option: dockerd meets it late and answers 500 where one would look for 400."""


def check_mounts(mounts: list[dict]) -> None:
    """Raise Invalid for the first entry of HostConfig.Mounts that cannot be."""
    for mount in mounts:
        problem = _problem(mount)
        if problem:
            raise Invalid(f'invalid mount config for type "{mount.get("Type") or ""}": {problem}')


def _problem(mount: dict) -> str | None:
    kind, source, target = (mount.get(key) or "" for key in ("Type", "Source", "Target"))
    if not target:
        return "field Target must not be empty"
    if posixpath.normpath(target) == "/":
        return "invalid specification: destination can't be '/'"
    if not target.startswith("/"):
        return f"invalid mount path: '{target}' mount path must be absolute"
    if kind not in _OPTIONS:
        return "mount type unknown"
    for key in _ALL_OPTIONS:
        if mount.get(key) is not None and key not in _OPTIONS[kind]:
            return f"field {key} must not be specified"
    if kind == "tmpfs" and source:
        return "field Source must not be specified"
    if kind in _SOURCE_NEEDED and not source:
        return "field Source must not be empty"
    if kind == "bind":
        return _problem_of_bind(mount, source)
    return None


def _problem_of_bind(mount: dict, source: str) -> str | None:
    options = mount.get("BindOptions") or {}
    propagation = options.get("Propagation") or ""
    if propagation and propagation not in _PROPAGATIONS:
        return f"invalid propagation mode: {propagation}"
    if not source.startswith("/"):
        return f"invalid mount path: '{source}' mount path must be absolute"
    if not options.get("CreateMountpoint") and not os.path.lexists(source):
        return f"bind source path does not exist: {source}"
    return None


def check_tmpfs(tmpfs: dict[str, str]) -> None:
    """Raise Invalid for a target of HostConfig.Tmpfs that is not absolute, or is the root."""
    for target in tmpfs:
        if posixpath.normpath(target) == "/":
            raise Invalid("invalid specification: destination can't be '/'")
        if not target.startswith("/"):
            raise Invalid(f"invalid mount path: '{target}' mount path must be absolute")


def check_binds(binds: list[str], mounts: list[dict]) -> None:
    """Raise for a bind that cannot be read (dockerd: 500), and Invalid for a target that is named twice."""
    taken = set()
    for bind in binds:
        target = _target_of_bind(bind)
        if target in taken:
            raise Invalid(f"Duplicate mount point: {target}")
        taken.add(target)
    for mount in mounts:
        target = posixpath.normpath(mount["Target"])
        if target in taken:
            raise Invalid(f"Duplicate mount point: {target}")
        taken.add(target)


def _target_of_bind(bind: str) -> str:
    parts = bind.split(":")
    if len(parts) > 3 or not parts[0]:
        raise UncheckedByDockerd(f"invalid volume specification: '{bind}'")
    target = parts[0] if len(parts) == 1 else parts[1]
    kind = "bind" if len(parts) > 1 and parts[0].startswith("/") else "volume"
    problem = None
    if not target:
        problem = "field Target must not be empty"
    elif posixpath.normpath(target) == "/":
        problem = "invalid specification: destination can't be '/'"
    elif not target.startswith("/"):
        problem = f"invalid mount path: '{target}' mount path must be absolute"
    if problem:
        raise UncheckedByDockerd(
            f"invalid volume specification: '{bind}': invalid mount config for type \"{kind}\": {problem}"
        )
    mode = parts[2] if len(parts) == 3 else ""
    if mode and not set(mode.split(",")) <= _MODES:
        raise UncheckedByDockerd(f"invalid mode: {mode}")
    return posixpath.normpath(target)

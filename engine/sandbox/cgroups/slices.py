"""The names of systemd's slices and of the containers' scopes in them, and the cgroups that systemd makes for them.

Pure texts, by systemd.slice(5), systemd.unit(5) and systemd.scope(5). A cgroup parent that is the name of a slice has
no `/` in it, and a parent that is a path begins with one: so a parent tells by itself whether systemd makes the cgroup.
"""

from engine.regex import regex

DEFAULT = "system.slice"
"""The slice of containers that ask for none."""
OF_USER = "user.slice"
"""The same among the slices of a user's own manager."""

_SUFFIX = ".slice"
_ROOT = "-.slice"
_PART = r"[A-Za-z0-9:_.\\]+"
_NAME = regex(rf"{_PART}(-{_PART})*\.slice")
_LONGEST = 255
# A cgroup of such a name could be taken for one of the kernel's files, so systemd puts `_` before it.
_MISTAKABLE = regex(r"[_.]|(cgroup|cpu|cpuacct|cpuset|io|blkio|memory|devices|pids|bpf-[a-z]+)\.")


def is_slice(parent: str) -> bool:
    """Whether this is the name of a slice that systemd takes."""
    return parent == _ROOT or (len(parent) <= _LONGEST and _NAME.fullmatch(parent) is not None)


def path(name: str) -> str:
    """The cgroup of the slice of this name; empty for the root. `a-b.slice` is in `a.slice`."""
    if name == _ROOT:
        return ""
    parts = name.removesuffix(_SUFFIX).split("-")
    return "".join("/" + _escaped("-".join(parts[: end + 1]) + _SUFFIX) for end in range(len(parts)))


def scope(id: str) -> str:
    """The name of a container's scope, a unit of systemd; it names its cgroup too."""
    return f"engine-{id}.scope"


def _escaped(name: str) -> str:
    return f"_{name}" if _MISTAKABLE.match(name) else name

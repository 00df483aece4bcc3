"""Shapes the answer of GET /system/df for the API version of the client.

It is apart from `versions`, so that an idle daemon does not load it. Pure; used by request threads. Until 1.51 the
answer was four lists. Since 1.52 each kind has its sums and its list, and a client that does not ask for this form
alone, with `verbose`, gets both.
"""

from engine.daemon.api.versions import Version
from engine.daemon.jsontext import Object

_SUMS_SINCE = (1, 52)
_VIRTUAL_SIZE_UNTIL = (1, 44)
# kind → the key of its list (until 1.51), the key of its sums (since 1.52)
_NAMES = {
    "image": ("Images", "ImageUsage"),
    "container": ("Containers", "ContainerUsage"),
    "volume": ("Volumes", "VolumeUsage"),
    "build-cache": ("BuildCache", "BuildCacheUsage"),
}


def takes_kinds(version: Version) -> bool:
    """Whether a client of this version can ask for some kinds alone."""
    return version >= (1, 42)


def shown(version: Version, usage: dict[str, Object], verbose: bool) -> Object:
    """The usage that `diskusage.measure` returned, as a client of this version is to see it."""
    answer: Object = {}
    if version < _SUMS_SINCE or not verbose:
        answer = {name: _items(version, usage[kind]["Items"]) for kind, (name, _) in _NAMES.items() if kind in usage}
        if size := usage.get("image", {}).get("TotalSize"):
            answer = {"LayersSize": size, **answer}
    if version < _SUMS_SINCE:
        return answer
    for kind, (_, name) in _NAMES.items():
        if kind in usage:
            answer[name] = {key: value for key, value in usage[kind].items() if value}
    return answer


def _items(version: Version, items: list[Object]) -> list[Object]:
    """The entries of a list; those of images had one field more."""
    older = version < _VIRTUAL_SIZE_UNTIL
    return [{**item, "VirtualSize": item["Size"]} if older and "RepoTags" in item else item for item in items]

"""Shapes the answer of GET /system/df for the API version of the client.

It is apart from `versions`, so that an idle daemon does not load it. Pure; used by request threads. Until 1.51 the
answer was four lists. Since 1.52 each kind has its sums, and its list when the client asks for it. A client that does
not say gets both.
"""

from engine.daemon.api import versions
from engine.daemon.api.versions import Version
from engine.daemon.jsontext import Object
from engine.errors import Invalid

_SUMS_SINCE = (1, 52)
_BUILDER_SIZE_UNTIL = (1, 42)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})  # the words that Go's strconv.ParseBool takes
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
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


def verbosity(version: Version, text: str) -> bool | None:
    """Whether the client asks for the lists; None when it does not say, or its version could not. Raises Invalid."""
    if version < _SUMS_SINCE or not text:
        return None
    if text not in _TRUE | _FALSE:
        raise Invalid(f"invalid value for verbose: {text}")
    return text in _TRUE


def shown(version: Version, usage: dict[str, Object], verbose: bool | None) -> Object:
    """The usage that `diskusage.measure` returned, as a client of this version is to see it."""
    if version < _SUMS_SINCE:
        return _lists(version, usage)
    answer = {}
    if verbose is None:
        answer = {name: usage[kind]["Items"] for kind, (name, _) in _NAMES.items() if kind in usage}
        if size := usage.get("image", {}).get("TotalSize"):
            answer = {"LayersSize": size, **answer}
    for kind, (_, name) in _NAMES.items():
        if kind in usage:
            sums = {key: value for key, value in usage[kind].items() if value}
            if verbose is False:
                sums.pop("Items", None)
            answer[name] = sums
    return answer


def _lists(version: Version, usage: dict[str, Object]) -> Object:
    items = {name: usage[kind]["Items"] if kind in usage else None for kind, (name, _) in _NAMES.items()}
    if items["Images"] is not None:
        # At these versions GET /images/json told no number of containers yet, but GET /system/df always did.
        items["Images"] = [
            {**versions.image(version, item), "Containers": item["Containers"]} for item in items["Images"]
        ]
    answer = {"LayersSize": usage.get("image", {}).get("TotalSize", 0), **items}
    if version < _BUILDER_SIZE_UNTIL:
        answer["BuilderSize"] = usage["build-cache"]["TotalSize"]
    return answer

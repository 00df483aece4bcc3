"""How GET /system/df looks to a client of each version: a part of `versions` that an idle daemon does without.

Pure; used by request threads. Until 1.51 the answer was four lists; since 1.52 each kind has its sums, its list is
there when it is asked for, and whoever does not say is told both.
"""

from engine.daemon.api import versions
from engine.daemon.api.versions import Version
from engine.daemon.jsontext import Object
from engine.errors import Invalid

_SUMS_SINCE = (1, 52)
_BUILDER_SIZE_UNTIL = (1, 42)
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})  # as Go's strconv.ParseBool has them
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
# kind → its list of old, its sums of today
_NAMES = {
    "image": ("Images", "ImageUsage"),
    "container": ("Containers", "ContainerUsage"),
    "volume": ("Volumes", "VolumeUsage"),
    "build-cache": ("BuildCache", "BuildCacheUsage"),
}


def takes_kinds(version: Version) -> bool:
    """Whether a client can ask for some kinds alone."""
    return version >= (1, 42)


def verbosity(version: Version, text: str) -> bool | None:
    """Whether the lists are asked for; None where that is not said, or could not be said. Raises Invalid."""
    if version < _SUMS_SINCE or not text:
        return None
    if text not in _TRUE | _FALSE:
        raise Invalid(f"invalid value for verbose: {text}")
    return text in _TRUE


def shown(version: Version, usage: dict[str, Object], verbose: bool | None) -> Object:
    """What was measured (see `diskusage.measure`) as a client of this version is to see it."""
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
        # A list of images told no number of containers yet, but this one always did.
        items["Images"] = [
            {**versions.image(version, item), "Containers": item["Containers"]} for item in items["Images"]
        ]
    answer = {"LayersSize": usage.get("image", {}).get("TotalSize", 0), **items}
    if version < _BUILDER_SIZE_UNTIL:
        answer["BuilderSize"] = usage["build-cache"]["TotalSize"]
    return answer

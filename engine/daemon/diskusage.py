"""Measures the disk usage of images, containers, volumes and the build cache for GET /system/df, and how much of it a
prune could free.

Runs in a request's thread, which walks the directories of containers and volumes. Each kind is a count and sums with
the names of the API's definition, and its items. `api.usageform` then shapes the answer.
"""

from collections.abc import Callable, Collection

from engine.daemon.builder import prune as builds
from engine.daemon.containers.verbs import listing as containers
from engine.daemon.images import usage as images
from engine.daemon.images.verbs.listing import images_json
from engine.daemon.jsontext import Object
from engine.daemon.parts import ContainerParts
from engine.daemon.volumes import listing as volumes
from engine.daemon.volumes import usage
from engine.errors import Invalid

# The states of containers whose files are in use.
_ACTIVE = frozenset({"running", "paused", "restarting"})


def measure(engine: ContainerParts, kinds: Collection[str]) -> dict[str, Object]:
    """The usage of each of these kinds (of `KINDS`): its `Items` and their sums."""
    return {kind: _MEASURES[kind](engine) for kind in KINDS if kind in kinds}


def check(kinds: Collection[str]) -> None:
    """Raise Invalid for a name that is not one of `KINDS`."""
    for kind in kinds:
        if kind not in _MEASURES:
            raise Invalid(f"unknown object type: {kind}")


def _summed(items: list[Object], active: int, size: int, reclaimable: int) -> Object:
    return {
        "ActiveCount": active,
        "Items": items,
        "Reclaimable": reclaimable,
        "TotalCount": len(items),
        "TotalSize": size,
    }


def _images(engine: ContainerParts) -> Object:
    """The usage of images. What two of them share is not reclaimable: dockerd counts what each has alone."""
    items = images_json(engine.images, {}, shared_size=True, used_by=engine.containers.using)
    idle = sum(item["Size"] - item["SharedSize"] for item in items if not item["Containers"])
    return _summed(items, sum(item["Containers"] > 0 for item in items), images.measure(engine.database), idle)


def _containers(engine: ContainerParts) -> Object:
    items = containers.list_containers(engine, containers.AskedListing(all=True, size=True))
    for item in items:
        item.pop("ImageManifestDescriptor", None)  # only GET /containers/json shows it
    idle = sum(item["SizeRw"] for item in items if item["State"] not in _ACTIVE)
    active = sum(item["State"] in _ACTIVE for item in items)
    return _summed(items, active, sum(item["SizeRw"] for item in items), idle)


def _volumes(engine: ContainerParts) -> Object:
    """The usage of volumes. Those with mount options, and those that plugins keep, are left out: their
    contents are on another file system.
    """
    items: list[Object] = []
    for volume in engine.volumes.all():
        if not volume.options and not volume.remote:
            used = {"RefCount": len(engine.volumes.users(volume.name)), "Size": usage.size(volume)}
            items.append({**volumes.show(volume), "UsageData": used})
    figures = [item["UsageData"] for item in items]
    idle = sum(each["Size"] for each in figures if not each["RefCount"])
    return _summed(items, sum(each["RefCount"] > 0 for each in figures), sum(each["Size"] for each in figures), idle)


def _builds(engine: ContainerParts) -> Object:
    items = builds.figures(engine)
    idle = sum(item["Size"] for item in items if not (item["InUse"] or item["Shared"]))
    return _summed(items, sum(item["InUse"] for item in items), sum(item["Size"] for item in items), idle)


_MEASURES: dict[str, Callable[[ContainerParts], Object]] = {
    "image": _images,
    "container": _containers,
    "volume": _volumes,
    "build-cache": _builds,
}
KINDS = tuple(_MEASURES)
"""The kinds, in the order in which they are shown."""

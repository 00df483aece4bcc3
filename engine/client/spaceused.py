"""The verb `engine system df`: what images, containers, volumes and the cache of builds take of the disk.

Runs in the client's one thread.
"""

import time
from collections.abc import Iterable, Sequence

from engine.client.api import Api
from engine.client.container.containerlist import container_row
from engine.client.display import age, parse_time, shown_size
from engine.client.image.imagelist import image_rows
from engine.client.showing.listings import FORMAT, Listing, Row, lines, show
from engine.client.transport import Object
from engine.client.volumes import volume_row
from engine.commandline import Given, Option, given_text
from engine.errors import Invalid

OPTIONS = (
    FORMAT,
    Option("verbose", "Show detailed information on space usage", short="v", kind="flag", default=False),
)
LISTING = Listing(
    {"Type": "TYPE", "TotalCount": "TOTAL", "Active": "ACTIVE", "Size": "SIZE", "Reclaimable": "RECLAIMABLE"},
    ("Type", "TotalCount", "Active", "Size", "Reclaimable"),
)
_IMAGES = Listing(
    {
        "Repository": "REPOSITORY",
        "Tag": "TAG",
        "ID": "IMAGE ID",
        "CreatedSince": "CREATED",
        "Size": "SIZE",
        "SharedSize": "SHARED SIZE",
        "UniqueSize": "UNIQUE SIZE",
        "Containers": "CONTAINERS",
    },
    ("Repository", "Tag", "ID", "CreatedSince", "Size", "SharedSize", "UniqueSize", "Containers"),
)
_CONTAINERS = Listing(
    {
        "ID": "CONTAINER ID",
        "Image": "IMAGE",
        "Command": "COMMAND",
        "LocalVolumes": "LOCAL VOLUMES",
        "Size": "SIZE",
        "RunningFor": "CREATED",
        "Status": "STATUS",
        "Names": "NAMES",
    },
    ("ID", "Image", "Command", "LocalVolumes", "Size", "RunningFor", "Status", "Names"),
)
_VOLUMES = Listing({"Name": "VOLUME NAME", "Links": "LINKS", "Size": "SIZE"}, ("Name", "Links", "Size"))
_CACHE = Listing(
    {
        "ID": "CACHE ID",
        "CacheType": "CACHE TYPE",
        "Size": "SIZE",
        "CreatedSince": "CREATED",
        "LastUsedSince": "LAST USED",
        "UsageCount": "USAGE",
        "Shared": "SHARED",
    },
    ("ID", "CacheType", "Size", "CreatedSince", "LastUsedSince", "UsageCount", "Shared"),
)


def df_verb(api: Api, given: Given, others: Sequence[str]) -> int:
    """`engine system df`. Raises Invalid, ApiError."""
    found: Object = api.call("GET", "/system/df")
    form, now = given_text(given, "format"), time.time()
    if not given.get("verbose"):
        show(LISTING, summary(found), form)
        return 0
    if form:
        raise Invalid("the details of --verbose are shown as tables alone")
    print("Images space usage:\n")
    images = [row for image in found.get("Images") or () for row in image_rows(image, False, now)]
    print("\n".join(lines(_IMAGES, images, "")))
    print("\nContainers space usage:\n")
    containers = [container_row(each, False, now) for each in found.get("Containers") or ()]
    print("\n".join(lines(_CONTAINERS, containers, "")))
    print("\nLocal Volumes space usage:\n")
    print("\n".join(lines(_VOLUMES, map(volume_row, found.get("Volumes") or ()), "")))
    print(f"\nBuild cache usage: {shown_size(_sum(found.get('BuildCache') or ()))}\n")
    print("\n".join(lines(_CACHE, [_cache_row(each, now) for each in found.get("BuildCache") or ()], "")))
    return 0


def summary(found: Object) -> list[Row]:
    """The four rows of an answer of GET /system/df."""
    images, containers = found.get("Images") or (), found.get("Containers") or ()
    volumes, cache = found.get("Volumes") or (), found.get("BuildCache") or ()
    layers = found.get("LayersSize", 0)
    used = sum(image["Size"] - max(image.get("SharedSize", 0), 0) for image in images if image.get("Containers", 0) > 0)
    running = [each for each in containers if each["State"] in ("running", "paused", "restarting")]
    written, idle = _sum(containers, "SizeRw"), [each for each in containers if each not in running]
    linked = [each for each in volumes if (each.get("UsageData") or {}).get("RefCount", 0) > 0]
    free = [each for each in volumes if (each.get("UsageData") or {}).get("RefCount", 0) == 0]
    whole = sum((each.get("UsageData") or {}).get("Size", 0) for each in volumes)
    busy = [each for each in cache if each.get("InUse")]
    return [
        _row("Images", images, sum(each.get("Containers", 0) > 0 for each in images), layers, max(layers - used, 0)),
        _row("Containers", containers, len(running), written, _sum(idle, "SizeRw")),
        _row(
            "Local Volumes",
            volumes,
            len(linked),
            whole,
            sum((each.get("UsageData") or {}).get("Size", 0) for each in free),
        ),
        _row(
            *("Build Cache", cache, len(busy), _sum(each for each in cache if not each.get("Shared"))),
            _sum(each for each in cache if not each.get("Shared") and not each.get("InUse")),
        ),
    ]


def _row(kind: str, things: Sequence[Object], active: int, whole: int, free: int) -> Row:
    percent = f" ({free * 100 // whole}%)" if whole and kind != "Build Cache" else ""
    return {
        "Type": kind,
        "TotalCount": str(len(things)),
        "Active": str(active),
        "Size": shown_size(whole),
        "Reclaimable": f"{shown_size(free)}{percent}",
    }


def _sum(things: Iterable[Object], field: str = "Size") -> int:
    return sum(each.get(field) or 0 for each in things)


def _cache_row(each: Object, now: float) -> Row:
    return {
        "ID": each["ID"][:12],
        "CacheType": each.get("Type", ""),
        "Size": shown_size(each["Size"]),
        "CreatedSince": f"{age(now - _seconds(each['CreatedAt']))} ago" if each.get("CreatedAt") else "",
        "LastUsedSince": f"{age(now - _seconds(each['LastUsedAt']))} ago" if each.get("LastUsedAt") else "",
        "UsageCount": str(each.get("UsageCount", 0)),
        "Shared": "true" if each.get("Shared") else "false",
    }


def _seconds(text: str) -> float:
    return float(parse_time(text, 0))


FUNCTIONS = {"system df": (df_verb, OPTIONS)}

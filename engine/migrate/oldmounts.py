"""Turns the mount points of dockerd's containers into those of the engine.

Pure but for the look at the volumes that are here. A volume's contents are `oldvolumes`' work.
"""

from engine.annotating import cast
from engine.daemon.api import schemas
from engine.daemon.api.body import decode
from engine.daemon.containers.mounts import requests
from engine.daemon.containers.shapes import MountPoint, MountSpec, TmpfsOptions
from engine.daemon.jsontext import Object
from engine.errors import Invalid, NotFound
from engine.migrate.accounting import Telling
from engine.migrate.newroot import Target

_ANONYMOUS_LENGTH = 64  # hex digits of the name of a volume that nobody has named
_MOST = 10_000


def points(told: object, target: Target, telling: Telling, container: str) -> tuple[MountPoint, ...]:
    """The mount points of a container, by their path. Raises Invalid, NotFound for a volume that is not here."""
    found = {}
    entries = list((told if isinstance(told, dict) else {}).values())
    if len(entries) > _MOST:
        raise Invalid(f"it has more than {_MOST} mount points")
    for entry in entries:
        if not isinstance(entry, dict):
            raise Invalid("one of its mount points is none")
        point = _point(entry, target)
        if point is None:
            telling.lacks(f"the mount on {entry.get('Destination')} of container {container}", "its kind is not known")
            continue
        found[point["Destination"]] = point
    return tuple(found[path] for path in sorted(found))


def _point(entry: Object, target: Target) -> MountPoint | None:
    kind = _text(entry, "Type") or ("volume" if entry.get("Name") else "bind")
    place = _text(entry, "Destination")
    if not place.startswith("/") or "\0" in place:
        raise Invalid("one of its mount points has no path")
    place, mode, writable = requests.clean(place), _text(entry, "Relabel"), bool(entry.get("RW"))
    if kind == "volume":
        return _volume(entry, target, place, mode, writable)
    if kind == "bind":
        source = _text(entry, "Source")
        if not source.startswith("/") or "\0" in source:
            raise Invalid(f"its mount on {place} has no source")
        spec: MountSpec = {} if entry.get("SkipMountpointCreation") else {"CreateMountpoint": True}
        propagation = _text(entry, "Propagation") or "rprivate"
        return requests.point(
            "bind", place, spec, source=requests.clean(source), mode=mode, writable=writable, propagation=propagation
        )
    if kind == "tmpfs":
        # The options are those that the client asked for; decoded as a request's they are of the right types.
        mount = {"Type": "tmpfs", "Target": place, "TmpfsOptions": _spec(entry).get("TmpfsOptions")}
        asked = decode(_body([mount]), schemas.CONTAINER_CREATE)["HostConfig"]["Mounts"]
        requests.check_mounts(asked)
        text = requests.tmpfs_text(cast(TmpfsOptions, asked[0].get("TmpfsOptions") or {}), writable)
        return requests.point("tmpfs", place, {"Data": text}, writable=writable)
    return None


def _volume(entry: Object, target: Target, place: str, mode: str, writable: bool) -> MountPoint:
    name = _text(entry, "Name")
    try:
        volume = target.volumes.get(name)
    except NotFound as error:
        raise NotFound(f"its volume {name} was not brought over") from error
    options = _spec(entry).get("VolumeOptions")
    subpath = options.get("Subpath") if isinstance(options, dict) else None
    nameless = len(name) == _ANONYMOUS_LENGTH and not name.strip("0123456789abcdef") and not _spec(entry).get("Source")
    spec: MountSpec = {"Copy": False, "Anonymous": nameless}
    if isinstance(subpath, str) and subpath:
        spec["Subpath"] = subpath
    return requests.point(
        "volume", place, spec, name=name, source=volume.path, driver=volume.driver, mode=mode or "z", writable=writable
    )


def _body(mounts: list[Object]) -> bytes:
    import json  # nothing else in here writes JSON

    return json.dumps({"HostConfig": {"Mounts": mounts}}).encode()


def _spec(entry: Object) -> Object:
    found = entry.get("Spec")
    return found if isinstance(found, dict) else {}


def _text(entry: Object, key: str) -> str:
    found = entry.get(key)
    return found if isinstance(found, str) else ""

"""Brings over dockerd's volumes: their names, labels and options, and what is in them.

A volume's contents are made whole beside the other volumes first, then they get their place, then the volume its row.
So a run that is cut off leaves no volume that is there in part, and the next run makes it anew.
"""

import os
import re

from engine.daemon import jsontext
from engine.daemon.jsontext import Object
from engine.daemon.tar.trees import remove_path
from engine.daemon.volumes.volume import DRIVER
from engine.errors import Invalid, NotFound
from engine.migrate.accounting import Telling
from engine.migrate.cloning import clone
from engine.migrate.newroot import Target
from engine.migrate.oldroot import Source

_ROOT = "volumes"
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_PRIVATE = 0o700
# The keys of `opts.json`, and the options of the driver that they came from.
_OPTIONS = {"MountType": "type", "MountOpts": "o", "MountDevice": "device"}


def bring(source: Source, target: Target, telling: Telling) -> None:
    """Bring over every volume of the driver `local` that is not here yet."""
    records = _records(source, telling)
    for name in source.names(_ROOT, missing=True):
        if not _NAME.fullmatch(name) or name.startswith("metadata.db") or name == "backingFsBlockDev":
            continue
        with telling.passing_over(f"volume {name}"):
            if name in {volume.name for volume in target.volumes.all()}:
                telling.found("volume", name)
            else:
                _one(source, target, telling, name, records.get(name, {}))
    for name, record in records.items():
        if record.get("Driver") not in (None, "", DRIVER):
            telling.lacks(f"volume {name}", f"it is of the volume plugin {record['Driver']}")


def _records(source: Source, telling: Telling) -> dict[str, Object]:
    """Name → what dockerd has recorded of each volume: `Driver`, `Labels`, `Options`."""
    found: dict[str, Object] = {}
    try:
        with source.bolt(f"{_ROOT}/metadata.db") as file:
            bucket = file.root.bucket(b"volumes")
            for key, value in bucket.values() if bucket is not None else ():
                name = key.decode("utf-8", "replace")
                with telling.passing_over(f"the labels of volume {name}"):
                    record = jsontext.parse(value, "record of a volume")
                    if isinstance(record, dict):
                        found[name] = record
    except NotFound:
        pass  # no volume was ever made by name
    except Invalid as error:
        telling.lacks("the labels of the volumes", error)
    return found


def _texts(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict) or not value:
        return None
    return {str(key): str(text) for key, text in value.items()}


def _one(source: Source, target: Target, telling: Telling, name: str, record: Object) -> None:
    options = _texts(record.get("Options")) or _options(source, name)
    place = os.path.join(target.settings.data_root, _ROOT, name)
    if os.path.lexists(place):
        remove_path(place)  # of a run that was cut off: no volume has this name
    os.mkdir(place, _PRIVATE)
    contents = os.path.join(place, "_data")
    os.mkdir(f"{contents}.part", _PRIVATE)
    sink = os.open(f"{contents}.part", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with source.directory(f"{_ROOT}/{name}/_data") as directory:
            done = clone(directory, sink, linked=False, tell=telling.progress)
        os.fsync(sink)
    finally:
        os.close(sink)
    os.rename(f"{contents}.part", contents)
    target.images.content.flush()
    target.volumes.create(name, DRIVER, options, _texts(record.get("Labels")))
    telling.add(done)
    telling.took("volume", name)


def _options(source: Source, name: str) -> dict[str, str] | None:
    try:
        found = source.document(f"{_ROOT}/{name}/opts.json")
    except NotFound:
        return None
    options = {key: str(found[field]) for field, key in _OPTIONS.items() if found.get(field)}
    quota = found.get("Quota")
    if isinstance(quota, dict) and quota.get("Size"):
        options["size"] = str(quota["Size"])
    return options or None

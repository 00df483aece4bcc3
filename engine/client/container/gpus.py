"""Parses what `--gpus` says: `all`, a number of GPUs, or `device=0,capabilities=compute` and the like.

Pure.
"""

import csv

from engine.client.transport import Object
from engine.errors import Invalid
from engine.literals import integer

_ALL = -1


def checked(text: str) -> str:
    """Checks one `--gpus`. Raises Invalid."""
    request(text)
    return text


def requests(texts: tuple[str, ...]) -> list[Object]:
    """Those that were given, as HostConfig.DeviceRequests."""
    return list(map(request, texts))


def request(text: str) -> Object:
    """One of them; its fields are those of a line of CSV, so `"device=0,1"` is one. Raises Invalid."""
    made: Object = {"Driver": "", "Count": 0, "DeviceIDs": None, "Capabilities": [["gpu"]], "Options": {}}
    seen: set[str] = set()
    for part in next(csv.reader([text], strict=True), []):
        key, separator, value = part.partition("=")
        if not separator:
            key, value = "count", part
        if key in seen:
            raise Invalid(f"gpu request key '{key}' can be specified only once")
        seen.add(key)
        if key == "count":
            made["Count"] = _ALL if value == "all" else _count(value)
        elif key == "device":
            made["DeviceIDs"] = value.split(",")
        elif key == "driver":
            made["Driver"] = value
        elif key == "capabilities":
            made["Capabilities"] = [[*value.split(","), "gpu"]]
        elif key == "options":
            made["Options"] = {name: setting for name, _, setting in (one.partition("=") for one in value.split(","))}
        else:
            raise Invalid(f"unexpected key '{key}' in '{part}'")
    if made["Count"] == 0 and made["DeviceIDs"] is None:
        made["Count"] = 1
    return made


def _count(text: str) -> int:
    try:
        return integer(text)
    except Invalid as error:
        raise Invalid(f'invalid count ({text}): value must be either "all" or an integer') from error
